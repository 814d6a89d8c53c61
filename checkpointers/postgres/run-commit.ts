/**
 * What `holdfast_commit_1` does with runs. Each row is looked up by itself, in the way of an index: as a join Postgres might
 * decide to read the whole table, which may be long.
 */

import { CLAIMABLE, UNENDED } from "./run-columns.ts";

/** Before anything is stored: what is fenced is what was there before the group. */
export const JUDGE_FENCES = /* sql */ `
    -- fences: [thread, run, epoch]
    if plan ? 'fences' and exists (
      select from jsonb_array_elements(plan->'fences') e(v)
      where (
        select r.epoch from @.holdfast_runs r
        where r.id = e.v->>1 and r.thread_no = thread_nos[(e.v->>0)::integer] and r.status = 'running'
      ) is distinct from (e.v->>2)::float8
    ) then
      raise exception 'another epoch of a run' using errcode = 'HF001';
    end if;
`;

export const STORE_RUNS = /* sql */ `
    -- runs, in order: [expected revision, -1 for none, null for any; statuses that it may have had, null where it was judged; id,
    --   thread, graph, status, rev, epoch, worker, due, priority, key, owner, created at, text]
    if plan ? 'runs' then
      for given in select x.v from jsonb_array_elements(plan->'runs') x(v) loop
        run_thread := thread_nos[(given->>3)::integer];
        run_threads := array_remove(run_threads, run_thread) || run_thread;
        if given->>5 = 'running' and jsonb_typeof(given->1) = 'array'
          and (select r.status from @.holdfast_runs r where r.id = given->>2) is distinct from 'running'
          and (
            exists (select from @.holdfast_runs r where r.thread_no = run_thread and r.status = 'running')
            or exists (select from @.holdfast_runs r
              where r.thread_no = run_thread and r.status in (${UNENDED})
                and (r.created_at, r.id) < ((given->>13)::float8, given->>2))
          )
        then
          raise exception 'another run is ahead' using errcode = 'HF001';
        end if;
        update @.holdfast_runs r
          set graph = given->>4, status = given->>5, rev = (given->>6)::integer, epoch = (given->>7)::float8,
            worker = given->>8, due = (given->>9)::float8, priority = (given->>10)::float8, owner = given->>12,
            body = texts[(given->>14)::integer], is_next = r.is_next and given->>5 in (${UNENDED})
          where r.id = given->>2 and r.thread_no = run_thread
            and (jsonb_typeof(given->0) = 'null' or r.rev = (given->>0)::integer and given->1 ? r.status
              and r.key is not distinct from given->>11 and r.created_at = (given->>13)::float8);
        continue when found;
        if (given->>0)::integer >= 0 then
          raise exception 'another revision of a run' using errcode = 'HF001';
        end if;
        -- Nearly always the thread has no other run that has not ended: then the row is right at once.
        insert into @.holdfast_runs (id, thread_no, graph, status, rev, epoch, worker, due, priority, key, owner,
            created_at, body, is_next)
          values (given->>2, run_thread, given->>4, given->>5, (given->>6)::integer, (given->>7)::float8, given->>8,
            (given->>9)::float8, (given->>10)::float8, given->>11, given->>12, (given->>13)::float8,
            texts[(given->>14)::integer], given->>5 in (${UNENDED}) and not exists (select from @.holdfast_runs r
              where r.thread_no = run_thread and r.status in (${UNENDED})))
          on conflict do nothing;
        if not found then
          raise exception 'a run with this id or key' using errcode = 'HF001';
        end if;
      end loop;
      foreach run_thread in array run_threads loop
        next_run := (select r.id from @.holdfast_runs r
          where r.thread_no = run_thread and r.status in (${UNENDED}) order by r.created_at, r.id limit 1);
        if exists (
          select from @.holdfast_runs r where r.thread_no = run_thread and r.status = 'running' and r.id <> next_run
        ) then
          next_run := null;
        end if;
        update @.holdfast_runs r set is_next = false
          where r.thread_no = run_thread and r.is_next and r.id is distinct from next_run;
        update @.holdfast_runs r set is_next = true where r.id = next_run and not r.is_next;
        wake := wake or exists (
          select from @.holdfast_runs r
          where r.id = next_run and r.status in (${CLAIMABLE})
            and r.due <= extract(epoch from clock_timestamp()) * 1000
        );
      end loop;
    end if;
`;
