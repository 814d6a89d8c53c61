/**
 * `holdfast_commit_1(plan, texts, bytes)`: applies a {@link Plan} or, where one of its assumptions does not hold, fails
 * with SQLSTATE HF001 and leaves nothing. Bodies and blobs travel beside the plan, so that they are escaped nowhere.
 *
 * Every commit takes the locks of its threads first and each statement of a volatile function has a snapshot of its own,
 * so what is checked is what is there, also where another process was waited for (B2). Locks are taken in the order of their
 * keys: two commits cannot wait for each other. Advisory locks, because locking a row writes it. A transaction whose statements
 * all have one snapshot would not see what it waited for: it fails with HF003.
 *
 * Whoever listens is told, once, of a commit that answers a wait or leaves a run that is due.
 *
 * The search path is fixed, so that nothing of the application's stands in for a function of Postgres.
 */

import { JUDGE_FENCES, STORE_RUNS } from "./run-commit.ts";

/** Seed of the keys, so that they are others than an application's own. */
const LOCK_SEED = 4841564;

/** What locks threads, each once and in the order of the keys; `threads` is a JSON array whose elements begin with an id. */
export const lockThreads = (threads: string): string => /* sql */ `pg_catalog.pg_advisory_xact_lock(k.lock)
      from (select distinct pg_catalog.hashtextextended(e.v->>0, ${LOCK_SEED}) as lock
        from pg_catalog.jsonb_array_elements(${threads}) e(v) order by 1) k`;

export const COMMIT_FUNCTION = /* sql */ `
  create function @.holdfast_commit_1(plan jsonb, texts text[], bytes bytea[]) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
  declare
    thread_nos bigint[];
    ns_nos bigint[];
    found_count bigint;
    holds boolean;
    n bigint;
    first_thread jsonb;
    first_ns jsonb;
    given jsonb;
    run_thread bigint;
    run_threads bigint[] := '{}';
    next_run text;
    wake boolean := false;
  begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
      raise exception 'the transaction has one snapshot for all of its statements' using errcode = 'HF003';
    end if;

    -- One row of the owner's own: it renews the lease, and says later whether this group has happened. A group that the
    -- network has kept back until the owner gave it up finds a higher number and is refused.
    if plan ? 'owner' then
      update @.holdfast_owners o
        set until = clock_timestamp() + make_interval(secs => (plan->'owner'->>2)::float8),
          group_no = (plan->'owner'->>1)::bigint
        where o.id = plan->'owner'->>0 and o.group_no < (plan->'owner'->>1)::bigint;
      if not found then
        raise exception 'the owner has given this group up' using errcode = 'HF002';
      end if;
    end if;

    -- One thread and at most one namespace, which are there: nearly every commit.
    if jsonb_array_length(plan->'threads') = 1 then
      first_thread := plan->'threads'->0;
      first_ns := plan->'namespaces'->0;
      holds := pg_advisory_xact_lock(hashtextextended(first_thread->>0, ${LOCK_SEED})) is null;
      if first_ns is null then
        select array[t.no] into thread_nos
          from @.holdfast_threads t where t.id = first_thread->>0 and t.era = (first_thread->>1)::integer;
      elsif first_ns->>2 is not null and jsonb_array_length(plan->'namespaces') = 1 then
        update @.holdfast_namespaces n set head = first_ns->>2
          from @.holdfast_threads t
          where t.id = first_thread->>0 and t.era = (first_thread->>1)::integer and n.thread_no = t.no
            and n.ns = first_ns->>1
            and (jsonb_typeof(first_ns->3) = 'null' or first_ns->3 @> coalesce(to_jsonb(n.head), 'null'))
          returning array[t.no], array[n.no] into thread_nos, ns_nos;
      end if;
    end if;
    if thread_nos is null then
      perform ${lockThreads("plan->'threads'")};

      -- threads: [id, era, digest of the id]
      select array_agg(t.no order by e.at), count(t.no), coalesce(bool_and(t.era = (e.v->>1)::integer), true)
        into thread_nos, found_count, holds
        from jsonb_array_elements(plan->'threads') with ordinality e(v, at)
        left join @.holdfast_threads t on t.id = e.v->>0;
      if not holds then
        raise exception 'another era' using errcode = 'HF001';
      end if;
      if found_count < jsonb_array_length(plan->'threads') then
        if exists (
          select from jsonb_array_elements(plan->'threads') e(v)
            left join @.holdfast_tombstones s on s.digest = e.v->>2
            where not exists (select from @.holdfast_threads t where t.id = e.v->>0)
              and coalesce(s.era, 0) <> (e.v->>1)::integer
        ) then
          raise exception 'another era' using errcode = 'HF001';
        end if;
        delete from @.holdfast_tombstones s using jsonb_array_elements(plan->'threads') e(v) where s.digest = e.v->>2;
        insert into @.holdfast_threads (id, era)
          select e.v->>0, (e.v->>1)::integer from jsonb_array_elements(plan->'threads') e(v)
          on conflict (id) do nothing;
        select array_agg(t.no order by e.at) into thread_nos
          from jsonb_array_elements(plan->'threads') with ordinality e(v, at)
          join @.holdfast_threads t on t.id = e.v->>0;
      end if;

      -- namespaces: [thread, ns, new head or null, accepted heads or null]
      if plan ? 'namespaces' then
        select array_agg(n.no order by e.at), count(n.no),
            bool_and(jsonb_typeof(e.v->3) = 'null' or (e.v->3) @> coalesce(to_jsonb(n.head), 'null'))
          into ns_nos, found_count, holds
          from jsonb_array_elements(plan->'namespaces') with ordinality e(v, at)
          left join @.holdfast_namespaces n on n.thread_no = thread_nos[(e.v->>0)::integer] and n.ns = e.v->>1;
        if not holds then
          raise exception 'another head' using errcode = 'HF001';
        end if;
        if found_count < jsonb_array_length(plan->'namespaces') then
          insert into @.holdfast_namespaces (thread_no, ns)
            select thread_nos[(e.v->>0)::integer], e.v->>1 from jsonb_array_elements(plan->'namespaces') e(v)
            on conflict (thread_no, ns) do nothing;
          select array_agg(n.no order by e.at) into ns_nos
            from jsonb_array_elements(plan->'namespaces') with ordinality e(v, at)
            join @.holdfast_namespaces n on n.thread_no = thread_nos[(e.v->>0)::integer] and n.ns = e.v->>1;
        end if;
        update @.holdfast_namespaces n set head = e.v->>2
          from jsonb_array_elements(plan->'namespaces') with ordinality e(v, at)
          where n.no = ns_nos[e.at] and e.v->>2 is not null;
      end if;
    end if;

${JUDGE_FENCES}
    -- checkpoints: [namespace, id, parent, source, text]
    if plan ? 'checkpoints' then
      insert into @.holdfast_checkpoints (ns_no, id, parent, source, body)
        select ns_nos[(e.v->>0)::integer], e.v->>1, e.v->>2, e.v->>3, texts[(e.v->>4)::integer]
        from jsonb_array_elements(plan->'checkpoints') e(v)
        on conflict (ns_no, id) do update
        set parent = excluded.parent, source = excluded.source, body = excluded.body;
    end if;

    -- writes: [namespace, checkpoint, task, slot, path, run, text, 1 where not judged]; special ones replace, others must be
    --   new. A special write stands under its own index; a call that may use such an index too is judged.
    if plan ? 'writes' then
      insert into @.holdfast_writes (ns_no, checkpoint, task, slot, path, run, body)
        select ns_nos[(e.v->>0)::integer], e.v->>1, e.v->>2, (e.v->>3)::smallint, e.v->>4, e.v->>5,
          texts[(e.v->>6)::integer]
        from jsonb_array_elements(plan->'writes') e(v)
        where (e.v->>3)::integer < 0 or e.v->>7 is null or not exists (
          select from @.holdfast_writes w
          where w.ns_no = ns_nos[(e.v->>0)::integer] and w.checkpoint = e.v->>1 and w.task = e.v->>2 and w.slot < 0
            and (strpos(texts[(e.v->>6)::integer], '[-') > 0
              or not starts_with(substr(w.body, strpos(w.body, ' ') + 1), '[[' || w.slot || ','))
        )
        on conflict (ns_no, checkpoint, task, slot) do update
        set path = excluded.path, run = excluded.run, body = excluded.body
        where excluded.slot < 0;
      get diagnostics n = row_count;
      if n < jsonb_array_length(plan->'writes') then
        raise exception 'a write is there' using errcode = 'HF001';
      end if;
    end if;

    -- lists: [thread, list, base, length]; items: [thread, list, start, count, text]
    if plan ? 'lists' then
      insert into @.holdfast_lists (thread_no, list, base, base_length)
        select thread_nos[(e.v->>0)::integer], e.v->>1, e.v->>2, (e.v->>3)::integer
        from jsonb_array_elements(plan->'lists') e(v)
        on conflict (thread_no, list) do nothing;
    end if;
    if plan ? 'items' then
      insert into @.holdfast_items (thread_no, list, start, count, body)
        select thread_nos[(e.v->>0)::integer], e.v->>1, (e.v->>2)::integer, (e.v->>3)::integer,
          texts[(e.v->>4)::integer]
        from jsonb_array_elements(plan->'items') e(v)
        on conflict (thread_no, list, start) do nothing;
      get diagnostics n = row_count;
      if n < jsonb_array_length(plan->'items') then
        raise exception 'items are there' using errcode = 'HF001';
      end if;
    end if;

    -- blobs: [thread, hash, text or null, bytes or null]
    if plan ? 'blobs' then
      insert into @.holdfast_blobs (thread_no, hash, text, bytes)
        select thread_nos[(e.v->>0)::integer], e.v->>1, texts[(e.v->>2)::integer], bytes[(e.v->>3)::integer]
        from jsonb_array_elements(plan->'blobs') e(v)
        on conflict (thread_no, hash) do nothing;
    end if;

    -- effects: [expected revision, -1 for none, null for any; key, thread or null, ns, checkpoint, task, name, digest,
    --   ordinal, status, rev, attempt, owner, text]
    if plan ? 'effects' then
      found_count := 0;
      n := 0;
      if jsonb_array_length(plan->'effects') > 1 or plan->'effects'->0->>0 is distinct from '-1' then
        update @.holdfast_effects f
          set thread_no = thread_nos[(e.v->>2)::integer], ns = e.v->>3, checkpoint = e.v->>4, task = e.v->>5,
            name = e.v->>6, digest = e.v->>7, ordinal = (e.v->>8)::integer, status = e.v->>9, rev = (e.v->>10)::integer,
            attempt = (e.v->>11)::integer, owner = e.v->>12, body = texts[(e.v->>13)::integer]
          from jsonb_array_elements(plan->'effects') e(v)
          where f.key = e.v->>1 and (jsonb_typeof(e.v->0) = 'null' or f.rev = (e.v->>0)::integer);
        get diagnostics found_count = row_count;
      end if;
      if found_count < jsonb_array_length(plan->'effects') then
        insert into @.holdfast_effects (key, thread_no, ns, checkpoint, task, name, digest, ordinal, status, rev, attempt,
            owner, body)
          select e.v->>1, thread_nos[(e.v->>2)::integer], e.v->>3, e.v->>4, e.v->>5, e.v->>6, e.v->>7,
            (e.v->>8)::integer, e.v->>9, (e.v->>10)::integer, (e.v->>11)::integer, e.v->>12, texts[(e.v->>13)::integer]
          from jsonb_array_elements(plan->'effects') e(v)
          where jsonb_typeof(e.v->0) = 'null' or (e.v->>0)::integer = -1
          on conflict (key) do nothing;
        get diagnostics n = row_count;
      end if;
      if n + found_count < jsonb_array_length(plan->'effects') then
        raise exception 'another revision of an effect' using errcode = 'HF001';
      end if;
    end if;

    -- waits: [expected revision, -1 to open unless it is there, null for any; id, thread, ns, checkpoint, task, kind, name,
    --   digest, status, opened at, due, graph, assignee, owner, decision, holder, rev, text]
    if plan ? 'waits' then
      with changed as (
        update @.holdfast_waits w
          set ns = e.v->>3, checkpoint = e.v->>4, task = e.v->>5, kind = e.v->>6, name = e.v->>7, digest = e.v->>8,
            status = e.v->>9, opened_at = (e.v->>10)::float8, due = (e.v->>11)::float8, graph = e.v->>12,
            assignee = e.v->>13, owner = e.v->>14, decision = (e.v->>15)::integer, holder = e.v->>16,
            rev = (e.v->>17)::integer, body = texts[(e.v->>18)::integer]
          from jsonb_array_elements(plan->'waits') e(v)
          where w.id = e.v->>1 and w.thread_no = thread_nos[(e.v->>2)::integer]
            and (jsonb_typeof(e.v->0) = 'null' or w.rev = (e.v->>0)::integer)
          returning (e.v->>0)::integer as expected
      )
      select count(c.expected) into n from changed c;
      insert into @.holdfast_waits (id, thread_no, ns, checkpoint, task, kind, name, digest, status, opened_at, due,
          graph, assignee, owner, decision, holder, rev, body)
        select e.v->>1, thread_nos[(e.v->>2)::integer], e.v->>3, e.v->>4, e.v->>5, e.v->>6, e.v->>7, e.v->>8, e.v->>9,
          (e.v->>10)::float8, (e.v->>11)::float8, e.v->>12, e.v->>13, e.v->>14, (e.v->>15)::integer, e.v->>16,
          (e.v->>17)::integer, texts[(e.v->>18)::integer]
        from jsonb_array_elements(plan->'waits') e(v)
        where jsonb_typeof(e.v->0) = 'null' or (e.v->>0)::integer = -1
        on conflict (id) do nothing;
      if n < (select count(*) from jsonb_array_elements(plan->'waits') e(v) where (e.v->>0)::integer >= 0)
        or exists (select from jsonb_array_elements(plan->'waits') e(v) join @.holdfast_waits w on w.id = e.v->>1
          where w.thread_no <> thread_nos[(e.v->>2)::integer])
      then
        raise exception 'another revision of a wait' using errcode = 'HF001';
      end if;
      wake := exists (
        select from jsonb_array_elements(plan->'waits') e(v) where e.v->>9 = 'answered' and e.v->>16 is null
      );
    end if;

    -- ends: [thread, wait]
    if plan ? 'ends' then
      update @.holdfast_waits w
        set status = case w.status when 'answered' then 'consumed' else 'superseded' end, holder = null, rev = w.rev + 1
        from jsonb_array_elements(plan->'ends') e(v)
        where w.id = e.v->>1 and w.thread_no = thread_nos[(e.v->>0)::integer] and w.status in ('open', 'answered');
    end if;

    -- decisions: [thread, seq, wait, hash, text], those of a thread in order
    if plan ? 'decisions' then
      if exists (
        select from (
          select thread_nos[(e.v->>0)::integer] as thread_no, min((e.v->>1)::integer) as seq
          from jsonb_array_elements(plan->'decisions') e(v) group by 1
        ) d
        where d.seq <> 1 + coalesce((select max(x.seq) from @.holdfast_decisions x where x.thread_no = d.thread_no), 0)
      ) then
        raise exception 'another decision' using errcode = 'HF001';
      end if;
      insert into @.holdfast_decisions (thread_no, seq, wait, hash, body)
        select thread_nos[(e.v->>0)::integer], (e.v->>1)::integer, e.v->>2, e.v->>3, texts[(e.v->>4)::integer]
        from jsonb_array_elements(plan->'decisions') e(v);
    end if;
${STORE_RUNS}
    if wake then
      perform pg_notify('@channel', '');
    end if;
  end $$;
`;
