package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-go/tenure/router"
)

func TestWriteLag(t *testing.T) {
	one := shardLag{Shard: 0, Node: "node-2", Orders: 3, Payments: 4}
	two := shardLag{Shard: 1, Node: "node-1", Orders: 10, Payments: 0}
	fresh := shardLag{Shard: 1, Node: "node-1", Orders: -1, Payments: 5}
	part := func(lags ...shardLag) router.Part[[]shardLag] { return router.Part[[]shardLag]{Value: lags} }
	for what, tc := range map[string]struct {
		gathered router.Gathered[[]shardLag]
		want     lagAnswer
		status   int
	}{
		"all": {
			router.Gathered[[]shardLag]{Parts: []router.Part[[]shardLag]{part(two), part(one)}},
			lagAnswer{Lag: 17, Known: true, Shards: []shardLag{one, two}},
			http.StatusOK,
		},
		"one has just begun": {
			router.Gathered[[]shardLag]{Parts: []router.Part[[]shardLag]{part(one, fresh)}},
			lagAnswer{Lag: 12, Known: false, Shards: []shardLag{one, fresh}},
			http.StatusOK,
		},
		"one is missing": {
			router.Gathered[[]shardLag]{
				Parts: []router.Part[[]shardLag]{part(one)}, Missing: []router.Missing{{Shards: []int{1}, Err: errors.New("nobody has it")}},
			},
			lagAnswer{},
			http.StatusServiceUnavailable,
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := httptest.NewRecorder()
			writeLag(w, httptest.NewRequest(http.MethodGet, "/lag", nil), &tc.gathered)
			var got lagAnswer
			_ = json.Unmarshal(w.Body.Bytes(), &got) // an error's text is none
			if diff := cmp.Diff(tc.want, got); diff != "" || w.Code != tc.status {
				t.Errorf("status %d, want %d; (-want +got):\n%s", w.Code, tc.status, diff)
			}
		})
	}
}
