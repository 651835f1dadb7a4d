package router

import (
	"fmt"
	"net/http"
)

// KeyFunc finds a request's key without reading the body. It must be safe for concurrent use. An
// error, or an empty key, is a 400 with the error's text: don't put secrets into it.
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
