package router

import (
	"net"
	"net/http"
	"sync"
)

// reserve is the connections that clients have dialed but sent no request on. http.Server.Shutdown gives them 5 s to send
// one, which is most of the time that there is to shut down; but nobody waits for an answer on them.
type reserve struct{ conns sync.Map } // of net.Conn

// watch follows h's connections, and passes on to the user's own hook.
func (r *reserve) watch(h *http.Server) {
	next := h.ConnState
	h.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			r.conns.Store(c, nil)
		} else {
			r.conns.Delete(c)
		}
		if next != nil {
			next(c, state)
		}
	}
}

// end closes them.
func (r *reserve) end() {
	r.conns.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close()
		return true
	})
}
