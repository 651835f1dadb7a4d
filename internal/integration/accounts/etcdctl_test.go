package accounts

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdctl stands in for the real one, in a process of its own: it knows the commands that deploy/etcd-role.sh needs, with the
// same arguments, and refuses all others. It returns the exit status.
func etcdctl(args []string) int {
	if err := carryOut(args); err != nil {
		fmt.Fprintf(os.Stderr, "etcdctl %s: %v\n", strings.Join(args, " "), err)
		return 1
	}
	return 0
}

func carryOut(args []string) error {
	secure, err := clientTLS(os.Getenv("ETCDCTL_CACERT"), os.Getenv("ETCDCTL_CERT"), os.Getenv("ETCDCTL_KEY"))
	if err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{os.Getenv("ETCDCTL_ENDPOINTS")}, TLS: secure, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	is := func(words ...string) bool {
		return len(args) == len(words) && slices.EqualFunc(args, words, func(arg, word string) bool { return word == "" || arg == word })
	}
	switch {
	case is("role", "add", ""):
		_, err = c.RoleAdd(ctx, args[2])
	case is("role", "grant-permission", "", "--prefix=true", "readwrite", ""):
		_, err = c.RoleGrantPermission(ctx, args[2], args[5], clientv3.GetPrefixRangeEnd(args[5]), clientv3.PermissionType(clientv3.PermReadWrite))
	case is("user", "add", "", "--no-password"):
		_, err = c.UserAddWithOptions(ctx, args[2], "", &clientv3.UserAddOptions{NoPassword: true})
	case is("user", "grant-role", "", ""):
		_, err = c.UserGrantRole(ctx, args[2], args[3])
	default:
		err = fmt.Errorf("not a command that this test knows")
	}
	return err
}
