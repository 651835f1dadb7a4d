package router

import (
	"fmt"
	"net/http"
	"strings"
)

// KeyFunc finds a request's key without reading the body. It must be safe for concurrent use. An
// error, or an empty key, is a 400 with the error's text: don't put secrets into it.
//
// What it returns decides the shard, and is what owner.Tenure.Owns has to be asked about. To keep together what belongs
// together, the accounts of a tenant say, return what they share: see Before.
type KeyFunc func(*http.Request) (string, error)

// PathValue takes the key from the wildcard name of the http.ServeMux pattern that matched.
func PathValue(name string) KeyFunc {
	return func(r *http.Request) (string, error) {
		if v := r.PathValue(name); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the path has no %q: want a request that matches a pattern with {%s}", name, name)
	}
}

// Header takes the key from a header. Names that begin with Tenure- are removed from requests, apart from
// Tenure-Token, and never found.
func Header(name string) KeyFunc {
	return func(r *http.Request) (string, error) {
		if v := r.Header.Get(name); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("header %q is missing or empty", name)
	}
}

// Before is the part of k's key before the first sep: with "acme:42" and ":" it is "acme", so that all of a tenant's accounts are
// of one shard, have one owner, and can be written in one transaction. A key without sep, or with nothing before or after it, is
// an error: taken as a whole it would be of another shard than the rest of its tenant.
//
// From then on the tenant is the key, for whoever else asks for a shard too: t.Owns("acme"), node.Do(ctx, "acme", …), the
// records of a topic whose partitions are the shards. t.Owns("acme:42") is false, as a rule. Where the tenant stands in a
// place of its own, PathValue or Header of that place is all it takes.
//
// A tenant is as large as a shard can get: it is never split, and one that is half of all the load is half of it at one node.
func (k KeyFunc) Before(sep string) KeyFunc {
	return func(r *http.Request) (string, error) {
		key, err := k(r)
		if err != nil {
			return "", err
		}
		part, rest, found := strings.Cut(key, sep)
		if !found || sep == "" || part == "" || rest == "" {
			return "", fmt.Errorf("the key has two parts: want %q between them, and both there", sep)
		}
		return part, nil
	}
}
