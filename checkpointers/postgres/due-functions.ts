/**
 * `holdfast_due_runs_1(due by, graphs or null, limit)` and `holdfast_next_due_1(graphs or null)`: what a worker asks for, again
 * and again. Each goes from one graph to the next, and inside a graph from one priority to the next, in the order of an index,
 * and looks at no more runs than are asked for. So neither those that wait, have ended, are due later or are kept back cost
 * anything, nor do the many of a long queue. Postgres is left no other way, as only one index has each order: it would choose
 * one by statistics, which may be old.
 */

import { CLAIMABLE, RUN_COLUMNS } from "./run-columns.ts";

const INDEXES_ONLY =
  "set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_incremental_sort = off";

/** The next graph that has a run to be claimed; of those that are asked for the next one, where they are not null. */
const NEXT_GRAPH = /* sql */ `
      if asked is not null then
        place := place + 1;
        name := asked[place];
      elsif name is null then
        name := (select r.graph from @.holdfast_runs r
          where r.status in (${CLAIMABLE}) and r.due is not null order by r.graph limit 1);
      else
        name := (select r.graph from @.holdfast_runs r
          where r.status in (${CLAIMABLE}) and r.due is not null and r.graph > name order by r.graph limit 1);
      end if;
      exit when name is null;`;

export const DUE_FUNCTIONS = /* sql */ `
  create function @.holdfast_due_runs_1(due_by double precision, asked text[], page integer)
  returns table (id text, thread text, fields text, body text)
  language plpgsql stable set search_path = pg_catalog, pg_temp ${INDEXES_ONLY} as $$
  declare
    name text collate "C";
    place integer := 0;
    level double precision;
    ids text[] := '{}';
  begin
    loop
      ${NEXT_GRAPH}
      continue when (select r.due from @.holdfast_runs r
        where r.status in (${CLAIMABLE}) and r.due is not null and r.graph = name order by r.due limit 1) <= due_by
        is not true;
      level := (select r.priority from @.holdfast_runs r
        where r.is_next and r.status in (${CLAIMABLE}) and r.graph = name order by r.priority desc limit 1);
      while level is not null loop
        ids := ids || array(select r.id from @.holdfast_runs r
          where r.is_next and r.status in (${CLAIMABLE}) and r.graph = name and r.priority = level and r.due <= due_by
          order by r.due, r.id limit page);
        level := (select r.priority from @.holdfast_runs r
          where r.is_next and r.status in (${CLAIMABLE}) and r.graph = name and r.priority < level
          order by r.priority desc limit 1);
      end loop;
    end loop;
    return query select r.id, t.id, ${RUN_COLUMNS}::text, r.body
      from unnest(ids) f(id) join @.holdfast_runs r on r.id = f.id join @.holdfast_threads t on t.no = r.thread_no
      order by r.priority desc, r.due, r.id limit page;
  end $$;

  create function @.holdfast_next_due_1(asked text[]) returns double precision
  language plpgsql stable set search_path = pg_catalog, pg_temp ${INDEXES_ONLY} as $$
  declare
    name text collate "C";
    place integer := 0;
    earliest double precision;
  begin
    loop
      ${NEXT_GRAPH}
      earliest := least(earliest, (select r.due from @.holdfast_runs r
        where r.status in (${CLAIMABLE}) and r.due is not null and r.graph = name order by r.due limit 1));
    end loop;
    return earliest;
  end $$;
`;
