/**
 * What `holdfast_commit_1` does with runs. Both pieces look up one row at a time, in the ways of the indexes: as a join Postgres
 * might decide to read the whole table, which may be long.
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
    -- runs: [expected revision, -1 for none, null for any; statuses that it may have had, null where it was judged; id, thread,
    --   graph, status, rev, epoch, worker, due, priority, key, owner, created at, text]
    if plan ? 'runs' then
      if exists (
        select from jsonb_array_elements(plan->'runs') e(v)
        where e.v->>5 = 'running' and jsonb_typeof(e.v->1) = 'array'
          and (select r.status from @.holdfast_runs r where r.id = e.v->>2) is distinct from 'running'
          and (
            (select 1 from @.holdfast_runs r
              where r.thread_no = thread_nos[(e.v->>3)::integer] and r.status = 'running' limit 1) is not null
            or (select 1 from @.holdfast_runs r
              where r.thread_no = thread_nos[(e.v->>3)::integer] and r.status in (${UNENDED})
                and (r.created_at, r.id) < ((e.v->>13)::float8, e.v->>2) limit 1) is not null
          )
      ) then
        raise exception 'another run is ahead' using errcode = 'HF001';
      end if;
      update @.holdfast_runs r
        set graph = e.v->>4, status = e.v->>5, rev = (e.v->>6)::integer, epoch = (e.v->>7)::float8, worker = e.v->>8,
          due = (e.v->>9)::float8, priority = (e.v->>10)::float8, owner = e.v->>12, body = texts[(e.v->>14)::integer],
          is_next = r.is_next and e.v->>5 in (${UNENDED})
        from jsonb_array_elements(plan->'runs') e(v)
        where r.id = e.v->>2 and r.thread_no = thread_nos[(e.v->>3)::integer]
          and (jsonb_typeof(e.v->0) = 'null' or r.rev = (e.v->>0)::integer and e.v->1 ? r.status
            and r.key is not distinct from e.v->>11 and r.created_at = (e.v->>13)::float8);
      get diagnostics found_count = row_count;
      -- Nearly always the thread has no other run that has not ended: then the row is right at once.
      insert into @.holdfast_runs (id, thread_no, graph, status, rev, epoch, worker, due, priority, key, owner, created_at,
          body, is_next)
        select e.v->>2, thread_nos[(e.v->>3)::integer], e.v->>4, e.v->>5, (e.v->>6)::integer, (e.v->>7)::float8, e.v->>8,
          (e.v->>9)::float8, (e.v->>10)::float8, e.v->>11, e.v->>12, (e.v->>13)::float8, texts[(e.v->>14)::integer],
          e.v->>5 in (${UNENDED}) and (select 1 from @.holdfast_runs r
            where r.thread_no = thread_nos[(e.v->>3)::integer] and r.status in (${UNENDED}) limit 1) is null
        from jsonb_array_elements(plan->'runs') e(v)
        where jsonb_typeof(e.v->0) = 'null' or (e.v->>0)::integer = -1
        on conflict do nothing;
      get diagnostics n = row_count;
      if n + found_count < jsonb_array_length(plan->'runs') then
        raise exception 'another revision of a run' using errcode = 'HF001';
      end if;
      for run_thread in
        select distinct thread_nos[(e.v->>3)::integer] from jsonb_array_elements(plan->'runs') e(v)
      loop
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
