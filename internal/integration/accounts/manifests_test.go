package accounts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// manifests is deploy/accounts.yaml, each object as the type that the API server takes it for.
type manifests struct {
	deployment appsv1.Deployment
	service    corev1.Service
	budget     policyv1.PodDisruptionBudget
	network    networkingv1.NetworkPolicy
}

// readManifests fails the test on a field that a type does not have, on one that is there twice, and on an object that is
// not expected.
func readManifests(t *testing.T) *manifests {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top(t), "examples/accounts/deploy/accounts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := &manifests{}
	want := map[string]any{
		"apps/v1 Deployment":                 &m.deployment,
		"v1 Service":                         &m.service,
		"policy/v1 PodDisruptionBudget":      &m.budget,
		"networking.k8s.io/v1 NetworkPolicy": &m.network,
	}
	for doc := range bytes.SplitSeq(b, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		name := kind.APIVersion + " " + kind.Kind
		into, ok := want[name]
		if !ok {
			t.Fatalf("deploy/accounts.yaml has a %s: it is there twice, or this test does not know of it", name)
		}
		delete(want, name)
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name := range want {
		t.Errorf("deploy/accounts.yaml has no %s", name)
	}
	if t.Failed() {
		t.FailNow()
	}
	return m
}

// container is the only one.
func (m *manifests) container(t *testing.T) corev1.Container {
	t.Helper()
	all := m.deployment.Spec.Template.Spec.Containers
	if len(all) != 1 {
		t.Fatalf("got %d containers, want 1", len(all))
	}
	return all[0]
}

// What selects pods selects these, and ports that are named are there.
func TestManifestsFitTogether(t *testing.T) {
	m := readManifests(t)
	pod := labels.Set(m.deployment.Spec.Template.Labels)
	for name, s := range map[string]*metav1.LabelSelector{
		"Deployment":          m.deployment.Spec.Selector,
		"Service":             {MatchLabels: m.service.Spec.Selector},
		"PodDisruptionBudget": m.budget.Spec.Selector,
		"NetworkPolicy":       &m.network.Spec.PodSelector,
	} {
		sel, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || sel.Empty() || !sel.Matches(pod) {
			t.Errorf("%s selects %v (%v), want pods with labels %v", name, sel, err, pod)
		}
	}
	for _, spread := range m.deployment.Spec.Template.Spec.TopologySpreadConstraints {
		if sel, err := metav1.LabelSelectorAsSelector(spread.LabelSelector); err != nil || sel.Empty() || !sel.Matches(pod) {
			t.Errorf("spread over %s selects %v (%v), want pods with labels %v", spread.TopologyKey, sel, err, pod)
		}
	}
	ports := make(map[string]int32)
	for _, p := range m.container(t).Ports {
		ports[p.Name] = p.ContainerPort
	}
	known := func(what string, port intstr.IntOrString) {
		if ports[port.StrVal] == 0 {
			t.Errorf("%s: port %q is none of the container's, %v", what, port.String(), ports)
		}
	}
	for _, p := range m.service.Spec.Ports {
		known("Service", p.TargetPort)
	}
	for _, in := range m.network.Spec.Ingress {
		for _, p := range in.Ports {
			known("NetworkPolicy", *p.Port)
		}
	}
	volumes := make(map[string]bool)
	for _, v := range m.deployment.Spec.Template.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range m.container(t).VolumeMounts {
		if !volumes[v.Name] {
			t.Errorf("mount of %q: no such volume", v.Name)
		}
	}
}

// Updates and node drains take one pod at a time, and none goes before its successor is there.
func TestManifestsReplaceOneAtATime(t *testing.T) {
	m := readManifests(t)
	s := m.deployment.Spec.Strategy
	if s.Type != appsv1.RollingUpdateDeploymentStrategyType || s.RollingUpdate.MaxUnavailable.String() != "0" || s.RollingUpdate.MaxSurge.String() != "1" {
		t.Errorf("strategy: got %v, want a rolling update with maxUnavailable 0 and maxSurge 1", s)
	}
	if got := m.budget.Spec.MaxUnavailable; got == nil || got.String() != "1" {
		t.Errorf("PodDisruptionBudget: got maxUnavailable %v, want 1", got)
	}
	if got := *m.deployment.Spec.Replicas; got < 3 {
		t.Errorf("got %d replicas, want at least 3: one may go while another is replaced", got)
	}
}

// Pods run as a user that is not root, in a file system that they can't write to, with no more rights than they need.
func TestManifestsAreLocked(t *testing.T) {
	m := readManifests(t)
	pod, c := m.deployment.Spec.Template.Spec, m.container(t)
	is := func(name string, got *bool, want bool) {
		if got == nil || *got != want {
			t.Errorf("%s is not %t", name, want)
		}
	}
	is("runAsNonRoot", pod.SecurityContext.RunAsNonRoot, true)
	is("automountServiceAccountToken", pod.AutomountServiceAccountToken, false)
	is("allowPrivilegeEscalation", c.SecurityContext.AllowPrivilegeEscalation, false)
	is("readOnlyRootFilesystem", c.SecurityContext.ReadOnlyRootFilesystem, true)
	if got := c.SecurityContext.Capabilities; got == nil || !slices.Equal(got.Drop, []corev1.Capability{"ALL"}) || len(got.Add) > 0 {
		t.Errorf("capabilities: got %v, want all dropped", got)
	}
	if got := pod.SecurityContext.SeccompProfile; got == nil || got.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("seccomp: got %v, want the runtime's default", got)
	}
	if want := imageUser(t); *pod.SecurityContext.RunAsUser != want {
		t.Errorf("runAsUser is %d, the image's user %d", *pod.SecurityContext.RunAsUser, want)
	}
	for _, v := range pod.Volumes {
		if v.Secret != nil && (*v.Secret.DefaultMode != 0o440 || pod.SecurityContext.FSGroup == nil) {
			t.Errorf("secret %s has mode %o: want 0440, and an fsGroup to read it", v.Secret.SecretName, *v.Secret.DefaultMode)
		}
	}
	for _, e := range c.Env {
		if strings.Contains(e.Name, "URL") || strings.Contains(e.Name, "PASSWORD") {
			if e.Value != "" || e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
				t.Errorf("%s is not from a Secret", e.Name)
			}
		}
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("resources: got %v, want requests, and a limit of memory", c.Resources)
	}
}

// fieldsOf puts in what Kubernetes does for variables in arguments: those that are fields of the pod.
func fieldsOf(t *testing.T, env []corev1.EnvVar) *strings.Replacer {
	t.Helper()
	pod := map[string]string{"status.podIP": "127.0.0.1", "metadata.name": "accounts-5d9c7b-x2x4z"}
	var words []string
	for _, e := range env {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			continue
		}
		value, ok := pod[e.ValueFrom.FieldRef.FieldPath]
		if !ok {
			t.Errorf("%s is %q, of which this test does not know", e.Name, e.ValueFrom.FieldRef.FieldPath)
		}
		words = append(words, "$("+e.Name+")", value)
	}
	return strings.NewReplacer(words...)
}

// The program runs with the manifests' arguments, in their environment, and as they say: it listens on their ports, answers
// their probes, and ends, with all that it is told, 5 s before the grace period does. Only what lies outside of the pod
// is another: addresses and certificates.
func TestManifestsRunTheProgram(t *testing.T) {
	m := readManifests(t)
	pod, c := m.deployment.Spec.Template.Spec, m.container(t)
	ca := newAuthority(t)
	endpoint := startEtcd(t, ca)
	ca.pair(t, "accounts")
	mounted := map[string]string{"ca.crt": "ca.crt", "tls.crt": "accounts.crt", "tls.key": "accounts.key"}

	database := postgres(t)
	nowhere := filepath.Join(t.TempDir(), "nowhere") // whoever wants a temporary file fails
	env := []string{"TMPDIR=" + nowhere}
	for _, e := range c.Env {
		switch {
		case e.ValueFrom == nil:
			env = append(env, e.Name+"="+e.Value)
		case e.Name == "DATABASE_URL" && database != "":
			env = append(env, e.Name+"="+database)
		}
	}
	var args []string
	for _, arg := range c.Args {
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case strings.Contains(value, "$("):
			value = fieldsOf(t, c.Env).Replace(value)
		case name == "-etcd":
			value = endpoint
		case strings.HasPrefix(value, c.VolumeMounts[0].MountPath+"/"):
			file := mounted[strings.TrimPrefix(value, c.VolumeMounts[0].MountPath+"/")]
			if file == "" {
				t.Errorf("%s: the Secret has %v", arg, mounted)
			}
			value = filepath.Join(ca.dir, file)
		case strings.HasPrefix(value, ":"):
			value = "127.0.0.1:0" // the port may be in use here; compared below
		}
		if value != "" {
			name += "="
		}
		args = append(args, name+value)
	}
	if database == "" {
		args = append(args, "-data="+t.TempDir())
	}
	if all := strings.Join(args, " "); strings.Contains(all, "$(") {
		t.Errorf("arguments with variables that are not set: %s", all)
	}
	p := launch(t, t.TempDir(), "pod", append(args, "-debug=127.0.0.1:0"), env)
	serves(t, p)

	ports := map[string]string{"http": p.said.HTTP, "grpc": p.said.GRPC}
	for _, port := range c.Ports {
		if !slices.Contains(c.Args, fmt.Sprintf("-%s=:%d", port.Name, port.ContainerPort)) {
			t.Errorf("port %s is %d, the arguments are %q", port.Name, port.ContainerPort, c.Args)
		}
	}
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || ports[probe.HTTPGet.Port.StrVal] == "" {
			t.Errorf("%s probe: want one over HTTP, on a port of the container", name)
			continue
		}
		if status := get(t, "http://"+ports[probe.HTTPGet.Port.StrVal]+probe.HTTPGet.Path); status != 200 {
			t.Errorf("%s probe, %s: got status %d, want 200", name, probe.HTTPGet.Path, status)
		}
	}
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if grace < p.within(t)+5*time.Second {
		t.Errorf("terminationGracePeriodSeconds is %v; the program may take %v, and something around it: want 5 s more", grace, p.within(t))
	}
	if took := p.end(t); took < 5*time.Second {
		t.Errorf("ended %v after SIGTERM: want it to linger for 5 s, as load balancers still send", took)
	}
}
