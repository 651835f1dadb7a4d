package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tenure-go/tenure/cas"
)

// Versions asks every endpoint for its version. What could not be had is in err, all joined.
func (s *Store) Versions(ctx context.Context) (byEndpoint map[string]string, err error) {
	if err := s.open(ctx, "versions"); err != nil {
		return nil, err
	}
	byEndpoint = make(map[string]string)
	var errs []error
	for _, endpoint := range s.client.Endpoints() {
		status, err := s.client.Status(ctx, endpoint)
		if err != nil {
			errs = append(errs, explain(ctx, "version of "+endpoint, err, cas.ErrUnavailable))
			continue
		}
		byEndpoint[endpoint] = status.Version
	}
	return byEndpoint, errors.Join(errs...)
}

// Advice is cas.Adviser: it warns of servers with known faults in leases.
func (s *Store) Advice(ctx context.Context) ([]string, error) {
	versions, err := s.Versions(ctx)
	var warnings []string
	for _, endpoint := range s.client.Endpoints() {
		if v, ok := versions[endpoint]; ok && faulty(v) {
			warnings = append(warnings, fmt.Sprintf(
				"etcd %s at %s may revoke leases that were renewed, and confirm renewals of leases that are gone (etcd#15247): upgrade to 3.5.23, 3.6.5 or later", v, endpoint))
		}
	}
	return warnings, err
}

// faulty reports whether a server of that version has the faults; one that can't be read
// counts as faulty.
func faulty(version string) bool {
	release, pre, _ := strings.Cut(version, "-")
	var n [3]int
	parts := strings.Split(release, ".")
	if len(parts) != len(n) {
		return true
	}
	for i, p := range parts {
		var err error
		if n[i], err = strconv.Atoi(p); err != nil {
			return true
		}
	}
	below := func(patch int) bool { return n[2] < patch || n[2] == patch && pre != "" }
	switch {
	case n[0] != 3:
		return n[0] < 3
	case n[1] < 5:
		return true
	case n[1] == 5:
		return below(23)
	case n[1] == 6:
		return below(5)
	}
	return false
}
