package machine

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goldenScenarios are the protocol's scenarios, in the order in which docs/design.md and package owner's documentation tell
// of them, and the scripts that show each.
var goldenScenarios = []struct{ scenario, scripts string }{
	{"join", "join join_drained_before join_config_changes"},
	{"id taken", "join_id_taken join_id_freed"},
	{"takeover", "join_takeover join_takeover_once"},
	{"an evicted process never revokes", "join_evicted_never_revokes"},
	{"a record under no lease", "join_over_a_corpse"},
	{"renew", "renew"},
	{"trust ends", "trust_ends trust_needs_a_view"},
	{"late reply to a renewal", "case_etcd19091_late_renewal_revives_nothing late_renewal_after_a_pause"},
	{"cold start", "cold_start cold_start_bounded"},
	{"orphans are granted", "orphan"},
	{"a member that settles", "settle"},
	{"quotas, the fewest moves", "move_balance weights"},
	{"pins", "pin pin_to_nobody"},
	{"drains", "drain"},
	{"move with and without preparation", "handoff move"},
	{"decline and avoid", "move_declined"},
	{"nobody can start it", "avoided_by_all"},
	{"preparation takes too long", "move_prepare_timeout"},
	{"hand-off in four steps", "handoff handoff_flush_fails handoff_turns"},
	{"forced hand-off", "handoff_forced"},
	{"NeverForce", "handoff_never_force"},
	{"the order is taken back", "drain_aborted"},
	{"a move that stands still is cancelled", "move_cancelled"},
	{"refused transfer, reclaim", "refused_transfer"},
	{"start rule", "lost_transfer_request late_transfer_after_reclaim outage_handler_still_runs start_rule_leaving start_rule_given_away"},
	{"lost: CONFIG", "lost_config"},
	{"lost: the grant of a lease", "lost_lease"},
	{"lost: JOIN", "lost_join"},
	{"lost: UPDATE", "lost_update"},
	{"lost: GRANT", "lost_grant"},
	{"lost: MOVE", "lost_move"},
	{"lost: CANCEL", "lost_cancel"},
	{"lost: DECLINE", "lost_decline"},
	{"lost: READY", "lost_ready"},
	{"lost: TRANSFER", "lost_transfer lost_transfer_request"},
	{"lost: RECLAIM", "lost_reclaim"},
	{"late: the answer to READY", "handoff_reply_hangs"},
	{"late: the answer to RECLAIM", "reclaim_reply_hangs"},
	{"lost: RELEASE", "lost_release"},
	{"lost: REAP", "lost_reap"},
	{"lost: UNAVOID", "lost_unavoid"},
	{"lost: PROBE", "lost_probe"},
	{"lost: the last revoke", "lost_revoke"},
	{"late: TRANSFER", "late_transfer late_transfer_after_reclaim lineage_raised_in_flight"},
	{"late: GRANT", "late_grant"},
	{"late: MOVE", "late_move late_move_of_another_holder"},
	{"late: CANCEL", "late_cancel"},
	{"late: REAP", "late_reap"},
	{"late: READY", "late_ready"},
	{"late: DECLINE", "late_decline"},
	{"late: RECLAIM", "late_reclaim"},
	{"late: UNAVOID", "late_unavoid"},
	{"late: RELEASE", "case_etcd22082_late_release"},
	{"late: UPDATE", "late_update"},
	{"outage within the lease", "outage_within_trust"},
	{"outage beyond trust, then RECLAIM", "outage_beyond_trust outage_handler_still_runs"},
	{"member key gone", "member_key_gone reclaim_member_gone"},
	{"lease gone", "lease_gone"},
	{"handler fails: back-off, release, unavoid", "handler_fails start_fails"},
	{"start takes too long", "start_timeout"},
	{"handler hangs", "handler_hangs"},
	{"graceful leave", "leave leave_deadline leave_no_move_comes leave_last_transfer"},
	{"leave with nobody else there", "leave_alone"},
	{"lease lost while leaving", "leave_lease_lost"},
	{"leave while the store is away", "leave_store_away"},
	{"planner dies", "planner_dies"},
	{"a paused planner's late write", "planner_paused planner_paused_with_a_plan planner_paused_p_alone planner_stale_plan"},
	{"source crashes", "crash_source_in_prepare crash_source_in_drain crash_source_in_transfer"},
	{"target crashes", "crash_target_in_prepare crash_target_in_drain crash_target_in_transfer crash_target_in_start"},
	{"lineage raised, lowered", "lineage_raised lineage_lowered grant_lineage_raised reclaim_lineage_raised"},
	{"the group's id changes, its config is deleted", "group_id_changed config_deleted"},
	{"store restored", "case_etcd16028_restored"},
	{"store full", "nospace"},
	{"claim of no member", "reap"},
	{"a quiet group on a busy store", "progress"},
	{"watch breaks, loses an event", "watch_breaks watch_loses_an_event"},
}

// goldenCases are the rows of CASES, failures that others have reported, and the scripts that show them impossible here, or
// why none can: what they are about is not the machine's.
var goldenCases = []struct{ row, scripts, elsewhere string }{
	{"1 etcd#22082", "case_etcd22082_late_release", ""},
	{"2 etcd#19597", "case_etcd19597_dead_waiter", ""},
	{"3 etcd#11456", "case_etcd11456_paused_holder", ""},
	{"4 etcd#15247", "case_etcd15247_claim_gone case_etcd15247_claim_rewritten", ""},
	{"5 etcd#19091", "case_etcd19091_late_renewal_revives_nothing", ""},
	{"6 etcd#16028", "case_etcd16028_restored", ""},
	{"7 consul#18271", "case_consul18271_silent_drop", ""},
	{"8 vitess#8309", "", "a call that waits is the gate's, in package owner"},
	{"9 k8s PR 139991", "case_k8s139991_transfer_waits", ""},
	{"10 dynamolock#280", "case_dynamolock280_renewal_reply_lost", ""},
	{"11 cockroach#127301", "", "an operation's id and receipt are package cas's: no transaction here needs to know its own first try"},
	{"12 etcd#14890, lib/pq#939", "", "package cas never sends twice by itself; what the machine sends twice is the lost_ and late_ scripts'"},
	{"13 powertools-python#4759", "", "idempotency keys are package idem's"},
	{"14 fiber#4287 and others", "", "idempotency keys are package idem's"},
	{"15 akkadotnet#7500", "case_akkadotnet7500_every_phase_ends", ""},
	{"16 cadence#7594", "case_cadence7594_target_drains case_cadence7594_grant_to_a_drainer case_cadence7594_stale_plan", ""},
	{"17 goka#267", "case_goka267_comes_to_rest", ""},
	{"18 horaedb-meta#200", "case_horaedb200_quota", ""},
	{"19 PostHog PR 82913", "case_PostHog82913_batches", ""},
	{"20 PostHog PR 76169", "", "the fence of a log is package fence's and router/kafka's"},
	{"21 consistent v0.10.0", "", "the ring is package shard's"},
}

// Every scenario has a script, and every script belongs to one.
func TestGolden_Coverage(t *testing.T) {
	var want []string
	for _, s := range goldenScenarios {
		scripts := strings.Fields(s.scripts)
		if len(scripts) == 0 {
			t.Errorf("no script shows: %s", s.scenario)
		}
		want = append(want, scripts...)
	}
	for _, c := range goldenCases {
		scripts := strings.Fields(c.scripts)
		if (len(scripts) == 0) == (c.elsewhere == "") {
			t.Errorf("case %s: want scripts, or the reason why there are none", c.row)
		}
		for _, s := range scripts {
			if !strings.HasPrefix(s, "case_") {
				t.Errorf("case %s: the script %s is not named after it", c.row, s)
			}
		}
		want = append(want, scripts...)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		if !slices.Contains(want, name) {
			t.Errorf("%s belongs to no scenario", f)
		}
	}
	for _, name := range want {
		if !slices.Contains(files, filepath.Join("testdata", name+".txt")) {
			t.Errorf("there is no testdata/%s.txt", name)
		}
	}
}
