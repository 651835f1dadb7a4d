package main

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/tenure-go/tenure/bench/internal/broker"
	"github.com/tenure-go/tenure/bench/internal/measure"
	"github.com/tenure-go/tenure/bench/internal/question"
	"github.com/tenure-go/tenure/bench/internal/report"
	"github.com/tenure-go/tenure/bench/internal/rival"
	"github.com/tenure-go/tenure/bench/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWants(t *testing.T) {
	for only, want := range map[string]bool{"": true, "zo": true, "hot,zombie": true, "hot": false} {
		if got := (&session{options: options{only: only}}).wants("zombie"); got != want {
			t.Errorf("-only %q: got %t, want %t", only, got, want)
		}
	}
}

// What is promised is what is planned, with a margin for a machine that is slower than most.
func TestPlan(t *testing.T) {
	fake := &broker.Broker{Fake: true, Least: broker.Least{Session: 2 * time.Second, NewSession: 2 * time.Second, NewBeat: 200 * time.Millisecond}}
	for name, test := range map[string]struct {
		options
		atMost time.Duration
	}{
		"quick, of the 30 s that are promised": {options{quick: true}, 24 * time.Second},
		"ordinary, of about two minutes":       {options{}, 110 * time.Second},
	} {
		test.shards = 2
		test.addresses = servers.Addresses{Etcd: []string{"here"}, Kafka: fake}
		s := &session{options: test.withDefaults(), places: &rival.Places{SQLite: &sql.DB{}, Etcd: &clientv3.Client{}, Kafka: fake}}
		var sum time.Duration
		for _, a := range asks {
			d := s.planned(a.name)
			if d == 0 && a.name != "placement" && a.name != "unsynced" {
				t.Errorf("%s: %s is not planned", name, a.name)
			}
			t.Logf("%s: %s %s", name, a.name, d)
			sum += d
		}
		if sum > test.atMost {
			t.Errorf("%s: planned %s, want at most %s", name, sum, test.atMost)
		}
	}
}

// A quick run's rounds are shorter than some contenders take for one request, so it judges nothing.
func TestBars_NoVerdictOfAQuickRun(t *testing.T) {
	results := []measure.Result{{Name: "a", Rates: []float64{3}}, {Name: "b", Rates: []float64{1}}}
	for quick, want := range map[bool]bool{true: false, false: true} {
		s := &session{options: options{quick: quick}}
		var b strings.Builder
		report.WriteTable(&b, s.bars("id", "title", "conditions.", results, []question.Bar{{Over: "a", Under: "b", Want: 2}}))
		if got := strings.Contains(b.String(), "met"); got != want {
			t.Errorf("quick %t: a verdict %t, want %t in %s", quick, got, want, &b)
		}
	}
}

// A question that is left out says why.
func TestNeeds(t *testing.T) {
	tables, err := (&session{places: &rival.Places{}}).unsynced(t.Context())
	if err != nil || len(tables) != 0 || needs["unsynced"] == "" {
		t.Errorf("got %v, %v, reason %q", tables, err, needs["unsynced"])
	}
}
