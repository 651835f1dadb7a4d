package architecture

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// root is the module's path. Rules name packages by what follows it.
const root = "github.com/tenure-go/tenure"

// goPackage is a package of the root module: what go list says of it, and the imports of all its
// files, whatever system they are for.
type goPackage struct {
	Path    string   // below root; "" is root itself
	Imports []string // of files that are built into the package
	Tests   []string // of its _test.go files
	Deps    []string // whatever Imports lead to, indirectly too
}

// family is a dependency that is heavy, or that a user may want in another version or not at all.
type family struct {
	name   string
	prefix string
	mayUse func(pkg string) bool // import it directly
}

var families = []family{
	{"etcd", "go.etcd.io/etcd", oneOf("cas/etcdkv", "cmd/tenure")},
	{"grpc", "google.golang.org/grpc", oneOf("cas/etcdkv", "router/grpcrouter", "router/grpcrouter/internal/echopb", "idem/grpcidem")},
	{"franz-go", "github.com/twmb/franz-go", oneOf("router/kafka", "idem/kafkaidem")},
	{"pgx", "github.com/jackc/pgx", func(pkg string) bool { return strings.HasPrefix(path.Base(pkg), "pgx") }},
}

func oneOf(pkgs ...string) func(string) bool {
	return func(pkg string) bool { return slices.Contains(pkgs, pkg) }
}

// lean packages depend on no family, indirectly either: whoever imports them chooses a store, a
// broker and a driver elsewhere.
var lean = []string{
	"shard",
	"cas", "cas/memkv", "cas/sqlcas",
	"owner", "owner/internal/machine", "owner/fence", "owner/ownertest", "owner/writer", "owner/fence/fencetest", "owner/fence/redisfence", "owner/fence/objectfence",
	"router",
	"idem", "idem/idemtest", "idem/sqlidem",
}

// layers says which packages of this module a package may import. Those that are not listed may import
// any that Go lets them. "x/..." stands for x and all below it.
var layers = []struct {
	pkg  string
	may  []string
	test []string // besides, in tests
}{
	{pkg: "shard"},
	{pkg: "cas", may: []string{"cas/internal/..."}, test: []string{"cas/memkv", "internal/..."}},
	{pkg: "cas/memkv", may: []string{"cas"}, test: []string{"internal/..."}},
	{pkg: "cas/etcdkv", may: []string{"cas"}, test: []string{"internal/..."}},
	{pkg: "cas/sqlcas", may: []string{"cas", "cas/sqlcas/internal/...", "internal/..."}},
	{
		pkg: "owner", may: []string{"shard", "cas", "internal/...", "owner/internal/..."},
		test: []string{"cas/memkv", "owner/ownertest"},
	},
	{
		pkg: "owner/internal/machine", may: []string{"shard", "cas", "internal/layout"},
		test: []string{"cas/memkv", "internal/...", "owner/internal/..."},
	},
	{
		pkg: "owner/fence", may: []string{"shard", "cas", "owner", "internal/..."},
		test: []string{"cas/memkv", "owner/ownertest"},
	},
	{pkg: "owner/fence/pgxfence", may: []string{"shard", "cas", "owner", "owner/fence", "internal/..."}, test: []string{"owner/ownertest"}},
	{pkg: "owner/fence/redisfence", may: []string{"shard", "cas", "owner", "owner/fence", "internal/..."}, test: []string{"owner/fence/fencetest"}},
	{pkg: "owner/fence/objectfence", may: []string{"shard", "cas", "owner", "owner/fence", "internal/..."}, test: []string{"owner/fence/fencetest"}},
	{
		pkg: "owner/writer", may: []string{"shard", "cas", "owner", "owner/fence"},
		test: []string{"cas/memkv", "owner/ownertest"},
	},
	{
		pkg: "router", may: []string{"shard", "cas", "owner", "internal/..."},
		test: []string{"cas/memkv", "owner/..."},
	},
	{
		pkg: "idem", may: []string{"shard", "cas", "internal/..."},
		test: []string{"cas/memkv", "idem/idemtest", "owner/...", "router"},
	},
	{pkg: "idem/idemtest", may: []string{"shard", "cas", "idem"}},
	{pkg: "idem/kafkaidem", may: []string{"shard", "cas", "owner", "router/kafka", "idem"}, test: []string{"cas/memkv"}},
}

// checkPackages reports each import that the rules forbid.
func checkPackages(pkgs []goPackage) []string {
	var faults []string
	for _, p := range pkgs {
		for _, f := range families {
			if f.mayUse(p.Path) {
				continue
			}
			for _, imp := range slices.Concat(p.Imports, p.Tests) {
				if within(imp, f.prefix) {
					faults = append(faults, fmt.Sprintf("%s imports %s: it may not use %s directly", p.Path, imp, f.name))
				}
			}
			if !slices.Contains(lean, p.Path) {
				continue
			}
			for _, dep := range p.Deps {
				if within(dep, f.prefix) {
					faults = append(faults, fmt.Sprintf("%s depends on %s: it may not depend on %s, indirectly either", p.Path, dep, f.name))
					break
				}
			}
		}
		faults = append(faults, checkLayers(p)...)
	}
	return faults
}

func checkLayers(p goPackage) []string {
	var faults []string
	for _, l := range layers {
		if l.pkg != p.Path {
			continue
		}
		for _, imp := range p.Imports {
			if own, ok := below(imp); ok && !covered(own, l.may) {
				faults = append(faults, fmt.Sprintf("%s imports %s: of this module it may import only %q", p.Path, own, l.may))
			}
		}
		for _, imp := range p.Tests {
			// A test may import its own package, and what that may.
			if own, ok := below(imp); ok && own != p.Path && !covered(own, l.may) && !covered(own, l.test) {
				faults = append(faults, fmt.Sprintf("%s imports %s in a test: of this module it may import only %q and %q", p.Path, own, l.may, l.test))
			}
		}
	}
	return faults
}

// within reports whether an import path is prefix, a version of it, or below it.
func within(imp, prefix string) bool {
	return imp == prefix || strings.HasPrefix(imp, prefix+"/")
}

// below takes root off an import path of this module.
func below(imp string) (string, bool) {
	if imp == root {
		return "", true
	}
	return strings.CutPrefix(imp, root+"/")
}

func covered(pkg string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
			return within(pkg, dir)
		}
		return pkg == pattern
	})
}

// requirements are the modules that may stand in the root's go.mod. Each moves versions in the
// build of whoever imports this module, so each has a reason.
var requirements = map[string]string{
	"github.com/buraksezer/consistent": "shard: the ring that placement prefers",
	"github.com/cespare/xxhash/v2":     "shard: the hash of keys",
	"go.etcd.io/etcd/api/v3":           "cas/etcdkv",
	"go.etcd.io/etcd/client/v3":        "cas/etcdkv",
	"google.golang.org/grpc":           "cas/etcdkv: status codes",
	"golang.org/x/sys":                 "cas/etcdkv: CLOCK_BOOTTIME",
	"github.com/dunglas/httpsfv":       "idem: the header Idempotency-Key is a structured field",
	"github.com/felixge/httpsnoop":     "idem: a ResponseWriter keeps its optional interfaces when it is wrapped",
	"github.com/jackc/pgx/v5":          "packages named pgx…",
	"github.com/twmb/franz-go":         "router/kafka, idem/kafkaidem",
	"github.com/google/go-cmp":         "tests",
	"go.uber.org/goleak":               "tests",

	// What etcd's client brings along.
	"github.com/coreos/go-semver":               "etcd's client",
	"github.com/coreos/go-systemd/v22":          "etcd's client",
	"github.com/golang/protobuf":                "etcd's client",
	"github.com/grpc-ecosystem/grpc-gateway/v2": "etcd's client",
	"go.etcd.io/etcd/client/pkg/v3":             "etcd's client",
	"go.uber.org/multierr":                      "etcd's client",
	"go.uber.org/zap":                           "etcd's client",
	"golang.org/x/net":                          "etcd's client",
	"golang.org/x/text":                         "etcd's client",
	"google.golang.org/genproto/googleapis/api": "etcd's client",
	"google.golang.org/genproto/googleapis/rpc": "etcd's client",
	"google.golang.org/protobuf":                "etcd's client",

	// What franz-go brings along.
	"github.com/twmb/franz-go/pkg/kmsg": "franz-go: Kafka's requests; router/kafka sends some itself",
	"github.com/klauspost/compress":     "franz-go: compression of batches",
	"github.com/pierrec/lz4/v4":         "franz-go: compression of batches",

	// What pgx brings along.
	"github.com/jackc/pgpassfile":    "pgx: passwords from a file",
	"github.com/jackc/pgservicefile": "pgx: connections named in a file",
	"github.com/jackc/puddle/v2":     "pgx: its pool",
	"golang.org/x/sync":              "pgx: its pool",
	"golang.org/x/crypto":            "pgx: SCRAM",
}

// checkRequirements reports modules in go.mod that no reason is known for.
func checkRequirements(modules []string) []string {
	var faults []string
	for _, m := range modules {
		if requirements[m] == "" {
			faults = append(faults, fmt.Sprintf("go.mod requires %s: it would come into every adopter's build; "+
				"let a nested module require it, or name the reason in this test", m))
		}
	}
	return faults
}
