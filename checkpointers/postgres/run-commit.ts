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
      for e in select x.v from jsonb_array_elements(plan->'runs') x(v) loop
        run_thread := thread_nos[(e->>3)::integer];
        run_threads := array_remove(run_threads, run_thread) || run_thread;
        if e->>5 = 'running' and jsonb_typeof(e->1) = 'array'
          and (select r.status from @.holdfast_runs r where r.id = e->>2) is distinct from 'running'
          and (
            exists (select from @.holdfast_runs r where r.thread_no = run_thread and r.status = 'running')
            or exists (select from @.holdfast_runs r
              where r.thread_no = run_thread and r.status in (${UNENDED})
                and (r.created_at, r.id) < ((e->>13)::float8, e->>2))
          )
        then
          raise exception 'another run is ahead' using errcode = 'HF001';
        end if;
        update @.holdfast_runs r
          set graph = e->>4, status = e->>5, rev = (e->>6)::integer, epoch = (e->>7)::float8, worker = e->>8,
            due = (e->>9)::float8, priority = (e->>10)::float8, owner = e->>12, body = texts[(e->>14)::integer],
            is_next = r.is_next and e->>5 in (${UNENDED})
          where r.id = e->>2 and r.thread_no = run_thread
            and (jsonb_typeof(e->0) = 'null' or r.rev = (e->>0)::integer and e->1 ? r.status
              and r.key is not distinct from e->>11 and r.created_at = (e->>13)::float8);
        continue when found;
        if (e->>0)::integer >= 0 then
          raise exception 'another revision of a run' using errcode = 'HF001';
        end if;
        -- Nearly always the thread has no other run that has not ended: then the row is right at once.
        insert into @.holdfast_runs (id, thread_no, graph, status, rev, epoch, worker, due, priority, key, owner,
            created_at, body, is_next)
          values (e->>2, run_thread, e->>4, e->>5, (e->>6)::integer, (e->>7)::float8, e->>8, (e->>9)::float8,
            (e->>10)::float8, e->>11, e->>12, (e->>13)::float8, texts[(e->>14)::integer],
            e->>5 in (${UNENDED}) and not exists (select from @.holdfast_runs r
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
