-- Record the results of calls, and settle the messages, in one transaction. The arrays have an element per message.
-- p_settlements: 'ack'; 'retry', nack; 'dead', dead-letter; 'release'. p_reasons, p_delays: of nacks; a delay null: the
-- queue's backoff.
-- p_reports: as in record_reports, of any of the messages, with an index n from 0. A report of a message that became a
-- dead letter is recorded as given up, with its failed_status. A report of a message that is delivered again keeps its
-- status. So does one whose lease had ended, and its call is not noted as finished: another process may have begun one.
-- Return the transactions as record_reports does, each with what became of its message: null where it was acked or
-- released, 'lost' where it was not released, else as nack_many says.
-- Locks: those of ack_many, nack_many and release_many; then those of record_reports. Errors: those of record_reports.
create or replace function laneway.finish_transactions(
  p_tokens uuid[],
  p_lanes int[],
  p_seqs bigint[],
  p_settlements text[],
  p_reasons text[],
  p_delays interval[],
  p_reports json,
  p_webhook_queue_id int default null)
returns table (transaction_id uuid, status text, final boolean, changed boolean, told boolean, outcome text)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_acks int[] := array_positions(p_settlements, 'ack');
  v_releases int[] := array_positions(p_settlements, 'release');
  v_nacks int[] := array_positions(p_settlements, 'retry') || array_positions(p_settlements, 'dead');
  v_outcomes text[] := array_fill(null::text, array[cardinality(p_settlements)]);
  v_outcome record;
  v_reports json := p_reports;
begin
  if cardinality(v_acks) > 0 then
    perform laneway.ack_many(
      array(select p_tokens[u.i] from unnest(v_acks) u (i)), array(select p_lanes[u.i] from unnest(v_acks) u (i)),
      array(select p_seqs[u.i] from unnest(v_acks) u (i)), array(select p_seqs[u.i] from unnest(v_acks) u (i)));
  end if;
  if cardinality(v_releases) > 0 then
    for v_outcome in
      select v_releases[r.idx + 1] as place
        from laneway.release_many(
               array(select p_tokens[u.i] from unnest(v_releases) u (i)),
               array(select p_lanes[u.i] from unnest(v_releases) u (i)),
               array(select p_seqs[u.i] from unnest(v_releases) u (i)),
               (select max(p_delays[u.i]) from unnest(v_releases) u (i))) r
    loop
      v_outcomes[v_outcome.place] := 'lost';
    end loop;
  end if;
  if cardinality(v_nacks) > 0 then
    for v_outcome in
      select v_nacks[n.idx + 1] as place, n.outcome
        from laneway.nack_many(
               array(select p_tokens[u.i] from unnest(v_nacks) u (i)),
               array(select p_lanes[u.i] from unnest(v_nacks) u (i)),
               array(select p_seqs[u.i] from unnest(v_nacks) u (i)),
               array(select p_reasons[u.i] from unnest(v_nacks) u (i)),
               array(select p_delays[u.i] from unnest(v_nacks) u (i)),
               array(select case p_settlements[u.i] when 'dead' then true end from unnest(v_nacks) u (i))) n
    loop
      v_outcomes[v_outcome.place] := v_outcome.outcome;
    end loop;
  end if;
  if cardinality(v_releases) > 0 or cardinality(v_nacks) > 0 then
    v_reports := (
      select json_agg(
               case v_outcomes[(r.report ->> 'n')::int + 1]
                 when 'dead' then (r.report::jsonb || jsonb_build_object(
                   'given_up', true, 'status', r.report -> 'failed_status', 'rank', 32767, 'final', true))::json
                 when 'requeued' then (r.report::jsonb - 'status' - 'rank' - 'final')::json
                 when 'lost' then (r.report::jsonb - 'status' - 'rank' - 'final' - 'called')::json
                 else r.report
               end)
        from json_array_elements(p_reports) r (report));
  end if;
  return query
    select d.transaction_id, d.status, d.final, d.changed, d.told, v_outcomes[i.n + 1]
      from laneway.record_reports(v_reports, p_webhook_queue_id) d
      join (select (r.report ->> 'id')::uuid as id, max((r.report ->> 'n')::int) as n
              from json_array_elements(p_reports) r (report)
             group by 1) i
        on i.id = d.transaction_id;
end $$;
