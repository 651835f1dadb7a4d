package idem

import (
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
)

// KeyHeader is the request header that names an operation.
const KeyHeader = "Idempotency-Key"

const maxHTTPKey = 255 // bytes

// keyError is a key that can't be used.
type keyError struct{ detail string }

func (e *keyError) Error() string { return "idem: " + KeyHeader + ": " + e.detail }

var errNoKey = &keyError{"this request needs the header " + KeyHeader + `, a string that is unique for each operation, as in ` + KeyHeader + `: "8e03978e-40d5"`}

// keyOf reads the one key of a request. The draft has a structured field's string ("8e03978e-40d5", in
// quotes); most clients send the bare token. Both mean the same key.
func keyOf(h http.Header) (string, error) {
	values := h[KeyHeader]
	if len(values) == 0 {
		return "", errNoKey
	}
	if len(values) > 1 {
		return "", &keyError{"there are several; send one"}
	}
	key, bad := values[0], ""
	if strings.HasPrefix(strings.TrimLeft(key, " "), `"`) {
		key, bad = unquote(values)
	} else if !isToken(key) {
		bad = "a key without quotes has letters, digits and any of !#$%&'*+-.^_`|~:/@= only"
	}
	switch {
	case bad != "":
		return "", &keyError{bad}
	case key == "":
		return "", &keyError{"it is empty"}
	case len(key) > maxHTTPKey:
		return "", &keyError{"it is too long: at most 255 characters"}
	}
	return key, nil
}

func unquote(values []string) (key, bad string) {
	item, err := httpsfv.UnmarshalItem(values)
	if err != nil {
		return "", "it is no string of a structured field (RFC 9651)"
	}
	key, ok := item.Value.(string)
	if !ok {
		return "", "it is no string of a structured field (RFC 9651)"
	}
	return key, ""
}

// isToken reports whether s has only characters of HTTP tokens and of base64, ARNs and URNs; no comma
// or semicolon, which would be a list or parameters.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~:/@=", c) >= 0:
		default:
			return false
		}
	}
	return true
}
