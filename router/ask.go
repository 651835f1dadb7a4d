package router

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"

	"github.com/tenure-go/tenure/internal/layout"
	"github.com/tenure-go/tenure/shard"
)

// ask is what one node is asked for.
type ask struct {
	member shard.Member
	target string
	shards []ShardEpoch // with the epochs by which member is believed to own them, in the order of shards
}

// newest is the highest of the epochs: a node that has seen it has seen them all.
func (a *ask) newest() (e shard.Epoch) {
	for _, s := range a.shards {
		e = max(e, s.Epoch)
	}
	return e
}

// all is a reply that no shard has an answer.
func (a *ask) all(err error) reply {
	return reply{failed: []Missing{{shardsOf(a.shards), err}}}
}

// send brings the question to a's node and returns its answer; every shard of a is in it.
func (q *question) send(ctx context.Context, r *http.Request, a *ask) reply {
	if q.h.node != nil && a.member.ID == q.h.self {
		part := q.answer(partRequest(r).WithContext(ctx), shardsOf(a.shards), a.newest())
		return part.reply(a)
	}
	failed := &ForwardError{Shard: a.shards[0].Shard, Owner: a.member, Epoch: a.shards[0].Epoch}
	if a.target == "" {
		failed.Err = errNoAddress
		return a.all(failed)
	}
	var wire connection
	mark := hop{nonce: newNonce(), group: q.h.table.id(), epoch: a.newest(), shards: encodeShards(a.shards)}
	req := q.request(httptrace.WithClientTrace(ctx, wire.trace()), r, a.target)
	mark.set(req.Header)
	res, err := q.h.conf.Transport.RoundTrip(req)
	if err != nil {
		failed.Sent, failed.Err = !wire.never(err), err
		if !failed.Sent && ctx.Err() == nil {
			return a.refusedBy(failed) // it may have gone, and its shards elsewhere
		}
		return a.all(failed)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
		_ = res.Body.Close()
	}()
	if _, _, refused := mark.refusal(res); refused {
		failed.Err = errRefused
		return a.refusedBy(failed)
	}
	failed.Sent = true
	if res.StatusCode != http.StatusOK || res.Header.Get(partHeader) != mark.nonce {
		failed.Err = fmt.Errorf("router: it answered %q and no part: want Gather on the same route at every node", res.Status)
		return a.all(failed)
	}
	var part wirePart
	limit := int64(q.conf.MaxPart) + int64(len(a.shards))*bytesPerShard + bytesPerShard
	if err := json.NewDecoder(io.LimitReader(res.Body, limit)).Decode(&part); err != nil {
		failed.Err = fmt.Errorf("router: its answer breaks off, or is above GatherConfig.MaxPart: %w", err)
		return a.all(failed)
	}
	return part.reply(a)
}

// refusedBy is a reply that the node owns nothing of what it was asked for.
func (a *ask) refusedBy(why error) reply {
	var re reply
	for _, s := range a.shards {
		re.refused = append(re.refused, refusedShard{shard: s.Shard, by: belief{s.Epoch, a.target}, reason: why})
	}
	return re
}

// reply sorts a node's answer by what it was asked for: nothing else counts. What it does not mention has failed.
func (p *wirePart) reply(a *ask) reply {
	held := make(map[int]shard.Epoch, len(p.Held))
	for _, h := range p.Held {
		held[h.Shard] = h.Epoch
	}
	refused := make(map[int]wireRefusal, len(p.Refused))
	for _, no := range p.Refused {
		refused[no.Shard] = no
	}
	re := reply{answered: answered{member: a.member.ID, value: p.Value}}
	var silent, old []int
	notOwner := &partError{a.member.ID, "not the owner"}
	for _, s := range a.shards {
		e, ok := held[s.Shard]
		no, ko := refused[s.Shard]
		switch {
		case ok && e < s.Epoch:
			old = append(old, s.Shard)
		case ok:
			re.held = append(re.held, ShardEpoch{s.Shard, e})
		case ko:
			out := refusedShard{shard: s.Shard, by: belief{s.Epoch, a.target}, reason: notOwner}
			if no.Owner != "" {
				out.owner = &layout.Owned{Member: &shard.Member{ID: no.Owner, Address: no.Address}, Epoch: no.Epoch}
			}
			re.refused = append(re.refused, out)
		default:
			silent = append(silent, s.Shard)
		}
	}
	why := cmp.Or(p.Failed, p.Busy)
	if p.Failed == "" && len(old) > 0 { // the value has them in it
		why = "it answered under an older epoch than it was asked by"
	}
	if p.Failed != "" || len(old) > 0 {
		silent = slices.Concat(silent, old, shardsOf(re.held))
		slices.Sort(silent)
		re.held = nil
	}
	if len(silent) > 0 {
		re.failed = []Missing{{silent, &partError{a.member.ID, why}}}
	}
	return re
}

// perHop are headers of one connection, or of the answer to the client, which is not what a node is asked for.
var perHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Expect",
	"Accept-Encoding", "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
}

// request is the client's for the node at target.
func (q *question) request(ctx context.Context, r *http.Request, target string) *http.Request {
	out := partRequest(r).WithContext(ctx)
	for _, list := range out.Header["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			delete(out.Header, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
	for _, name := range perHop {
		delete(out.Header, name)
	}
	q.h.rewrite(&httputil.ProxyRequest{In: r, Out: out})
	out.URL.Host = target
	out.RequestURI, out.Trailer, out.Close, out.TransferEncoding = "", nil, false, nil
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // or the transport sends one of its own
	}
	q.body.attach(out)
	return out
}

// partRequest is the client's as parts see it: a HEAD needs their answers too.
func partRequest(r *http.Request) *http.Request {
	out := *r
	url := *r.URL
	out.URL, out.Header = &url, r.Header.Clone()
	if out.Method == http.MethodHead {
		out.Method = http.MethodGet
	}
	return &out
}
