package router

import (
	"io"
	"net/http"

	"github.com/tenure-go/tenure/owner"
)

// Readyz answers 200 from the node's first join until it begins to leave, else 503 and why. It does not
// depend on the store: if it did, a store outage would take all replicas out of the load
// balancer at once. With n nil, in a gateway, it always answers 200.
func Readyz(n *owner.Node) http.Handler {
	if n == nil {
		return health("ready", func() error { return nil })
	}
	return health("ready", n.Ready)
}

// Livez answers 200 while the node's loop turns, else 503 and why: restart the process then. It asks no
// store. With n nil, in a gateway, it always answers 200.
func Livez(n *owner.Node) http.Handler {
	if n == nil {
		return health("live", func() error { return nil })
	}
	return health("live", n.Live)
}

func health(good string, check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, good+"\n")
	})
}
