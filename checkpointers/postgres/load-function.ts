/**
 * `holdfast_load_1(thread, ns, checkpoint or null, digest of the thread id)`: what a run needs of one namespace, in one
 * statement and therefore of one state. The first row says which row it is.
 */

import { WAIT_COLUMNS } from "./wait-columns.ts";

export const LOAD_FUNCTION = /* sql */ `
  create function @.holdfast_load_1(thread text, name text, wanted text, thread_digest text)
  returns table (kind text, id text, a text, b text, c text, n integer, body text)
  language plpgsql stable set search_path = pg_catalog, pg_temp as $$
  declare
    thread_number bigint;
    thread_era integer;
    ns_number bigint;
    ns_head text;
  begin
    select t.no, t.era into thread_number, thread_era from @.holdfast_threads t where t.id = thread;
    if thread_number is null then
      return query select 'era', null::text, null::text, null::text, null::text,
        coalesce((select s.era from @.holdfast_tombstones s where s.digest = thread_digest), 0), null::text;
      return;
    end if;
    select s.no, s.head into ns_number, ns_head from @.holdfast_namespaces s
      where s.thread_no = thread_number and s.ns = name;
    return query select 'era', ns_head, null::text, null::text, null::text, thread_era, null::text;
    if ns_number is not null then
      wanted := coalesce(wanted, ns_head);
      return query select 'checkpoint', p.id, p.parent, p.source, null::text, null::integer, p.body
        from @.holdfast_checkpoints p where p.ns_no = ns_number and p.id = wanted;
      if found then
        return query select 'write', w.task, w.path, w.run, null::text, w.slot::integer, w.body
          from @.holdfast_writes w where w.ns_no = ns_number and w.checkpoint = wanted;
      end if;
    end if;
    if name = '' then
      return query select 'wait', w.id, ${WAIT_COLUMNS}::text, null::text, null::text, null::integer, w.body
        from @.holdfast_waits w where w.thread_no = thread_number and w.status in ('open', 'answered');
    end if;
  end $$;
`;
