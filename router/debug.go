package router

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/owner"
)

// Debug is a status page: this node, the shards it holds and under which epochs, what happened since it started, the members,
// and who owns what as the table shows it. n is nil in a gateway; either may be nil, and its part is left out then.
//
// It answers in HTML without scripts, and in JSON if asked by ?format=json, by a path that ends in .json, or by Accept. Shards are
// shown a thousand at a time: ?from=N. In JSON durations are whole milliseconds and epochs "lineage:revision"; fields
// are only ever added.
//
// The page changes nothing, and holds no keys and no error texts. But it names your nodes, their addresses and their versions,
// so keep it off public networks: give it to a server of its own on a private address, or put a check of yours around it.
func Debug(n *owner.Node, t *Table) http.Handler {
	if n == nil {
		return debugPage(nil, t)
	}
	return debugPage(n, t)
}

// debugged is what Debug needs of an *owner.Node.
type debugged interface {
	Status() owner.Status
	Ready() error
	Live() error
}

func debugPage(n debugged, t *Table) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "want GET", http.StatusMethodNotAllowed)
			return
		}
		query := r.URL.Query()
		from, err := strconv.Atoi(query.Get("from"))
		if query.Has("from") && (err != nil || from < 0) {
			http.Error(w, fmt.Sprintf("from=%q: want the number of a shard", query.Get("from")), http.StatusBadRequest)
			return
		}
		format := query.Get("format")
		if format == "" {
			format = formatOf(r)
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Vary", "Accept")
		h.Set("X-Content-Type-Options", "nosniff")
		state := newReport(n, t, from)
		switch format {
		case "json":
			h.Set("Content-Type", "application/json")
			out := json.NewEncoder(w)
			out.SetIndent("", "  ")
			_ = out.Encode(state) // what fails is the connection
		case "html":
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
			_ = page.Execute(w, state)
		default:
			http.Error(w, fmt.Sprintf("format=%q: want html or json", format), http.StatusBadRequest)
		}
	})
}

// formatOf is what a request that names no format gets: JSON only if that, and no HTML, is asked for.
func formatOf(r *http.Request) string {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.HasSuffix(r.URL.Path, ".json") ||
		strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html") {
		return "json"
	}
	return "html"
}
