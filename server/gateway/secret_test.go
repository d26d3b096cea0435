package gateway

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/secretseal"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// hushed returns a job with a secret.
func hushed(name string) *messages.JobSpec {
	spec := gpuJob(name, 1, 1)
	spec.Secrets = []*messages.Secret{{Name: "TOKEN", Env: true, Value: []byte("hunter2")}}
	return spec
}

// TestSubmitSecret checks that only the record contains the value, encrypted, and that a repeated request with
// another value is the same request. No other call accepts a value, and SubmitSecret refuses a job without one.
func TestSubmitSecret(t *testing.T) {
	r := newRoom(t)
	s, memory := r.lead()
	v := secretseal.New(filepath.Join(t.TempDir(), secretseal.FileName))
	o := Options{Store: memory, Scripts: memory, ClusterID: "c1", Sealer: v, Log: r}
	o.Leader = func() Leader { return Leader{Here: true, Epoch: 1} }
	d := r.door(s, o)
	submit := func(spec *messages.JobSpec) (*messages.SubmitReply, error) {
		return d.SynapseClient.SubmitSecret(timely(t), &messages.Submit{RequestId: "r", Spec: spec, AllowInfeasible: true})
	}
	_, err := submit(hushed("a"))
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "no key to encrypt secrets")
	if _, err := v.Make(); err != nil {
		t.Fatal(err)
	}
	reply, err := submit(hushed("a"))
	if err != nil {
		t.Fatal(err)
	}
	other := hushed("a")
	other.Secrets[0].Value = []byte("another")
	if again, err := submit(other); err != nil || again.Job != reply.Job {
		t.Errorf("the same request: %v, %v", again, err)
	}
	kept, _, err := memory.Job(topology.JobID(reply.Job))
	if err != nil || len(kept.Sealed) == 0 || bytes.Contains(messages.Bytes(kept), []byte("hunter2")) {
		t.Errorf("kept as %v, %v", kept, err)
	}
	shown, err := d.SynapseClient.GetJob(timely(t), &messages.GetJob{Job: reply.Job})
	if err != nil || len(shown.Job.Record.Sealed) > 0 || shown.Job.Record.Spec.Secrets[0].Name != "TOKEN" {
		t.Errorf("shown as %v, %v", shown, err)
	}
	text, err := v.Open(kept.Sealed, "c1", "anonymous", "TOKEN")
	opened := &messages.Secrets{}
	if err != nil || proto.Unmarshal(text, opened) != nil || string(opened.Secrets[0].Value) != "hunter2" {
		t.Errorf("opened: %v, %v", opened, err)
	}

	_, err = submit(gpuJob("b", 1, 1))
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "are missing")
	_, err = submit(hushed("b").Bare())
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "is missing")
	sealed := &messages.Submit{Spec: hushed("b").Bare(), Sealed: kept.Sealed, AllowInfeasible: true}
	_, err = d.SynapseClient.Submit(timely(t), sealed)
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "need their values")
	_, err = d.SynapseClient.Submit(timely(t), &messages.Submit{Job: reply.Job})
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "has secrets, whose values cannot be copied")
	_, err = d.SynapseClient.Submit(timely(t), &messages.Submit{Spec: hushed("b")})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "is not allowed here")
	_, err = d.SynapseClient.DryRun(timely(t), &messages.DryRun{Spec: hushed("b")})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "is not allowed here")
	_, err = d.SynapseClient.ExplainJob(timely(t), &messages.ExplainJob{Spec: hushed("b")})
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "is not allowed here")
	plain := r.door(s, Options{Store: memory})
	_, err = plain.SynapseClient.SubmitSecret(timely(t), &messages.Submit{Spec: hushed("c")})
	refused(t, err, messages.Code_CODE_NOT_ALLOWED, codes.PermissionDenied, "secrets require TLS")
}

// TestReadSecrets checks that a node of an unfinished attempt gets the secrets from any scheduler with the key.
// Without the key, the error contains the fix. A value that was copied into another job's record cannot be
// decrypted.
func TestReadSecrets(t *testing.T) {
	r := newRoom(t)
	dir := t.TempDir()
	v, lacking := secretseal.New(filepath.Join(dir, "a")), secretseal.New(filepath.Join(dir, "b"))
	for _, of := range []*secretseal.Sealer{v, lacking} {
		if _, err := of.Make(); err != nil {
			t.Fatal(err)
		}
	}
	secrets, bare := hushed("a").TakeSecrets()
	sealed, err := v.Seal(messages.Bytes(secrets), "c1", "ann", "TOKEN")
	if err != nil {
		t.Fatal(err)
	}
	memory := recorded{}
	token := &messages.Token{Epoch: 1, Counter: 7}
	memory.put("mine", "ann", bare, sealed, &messages.AttemptRecord{Token: token, Places: []*messages.Place{{Node: "n1"}}})
	memory.put("bobs", "bob", bare, sealed, &messages.AttemptRecord{Token: token, Places: []*messages.Place{{Node: "n1"}}})
	memory.put("over", "ann", bare, sealed, &messages.AttemptRecord{
		Token: token, Places: []*messages.Place{{Node: "n1"}}, End: &messages.End{},
	})
	asks := func(v *secretseal.Sealer, node, job string, attempt *messages.Token) (*messages.Secrets, error) {
		g := New(r.system("gateway-of-"+node+job), Options{Store: memory, Sealer: v, ClusterID: "c1", Log: r,
			Node: func(context.Context) (string, error) {
				if node == "" {
					return "", errors.New("no machine")
				}
				return node, nil
			}})
		return g.ReadSecrets(timely(t), &api.ReadSecrets{Job: job, Attempt: attempt})
	}
	got, err := asks(v, "n1", "mine", token)
	if err != nil || string(got.Secrets[0].Value) != "hunter2" {
		t.Errorf("its machine is answered %v, %v", got, err)
	}
	for _, no := range []struct {
		node, job string
		attempt   *messages.Token
	}{
		{"n2", "mine", token}, {"", "mine", token}, {"n1", "none", token}, {"n1", "over", token},
		{"n1", "mine", &messages.Token{Epoch: 1, Counter: 8}},
	} {
		_, err := asks(v, no.node, no.job, no.attempt)
		refused(t, err, messages.Code_CODE_NOT_ALLOWED, codes.PermissionDenied, "has no task of this attempt")
	}
	_, err = asks(v, "n1", "bobs", token)
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "cannot be decrypted")
	_, err = asks(lacking, "n1", "mine", token)
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "missing on the current leader")
	if err := os.Remove(lacking.Path()); err != nil {
		t.Fatal(err)
	}
	_, err = asks(lacking, "n1", "mine", token)
	refused(t, err, messages.Code_CODE_CONFLICT, codes.AlreadyExists, "missing on the current leader")
}

// recorded is a store of a few jobs.
type recorded map[topology.JobID]recordedJob

type recordedJob struct {
	record  *messages.JobRecord
	attempt *messages.AttemptRecord
}

func (m recorded) put(
	id topology.JobID, owner string, spec *messages.JobSpec, sealed []byte, a *messages.AttemptRecord,
) {
	m[id] = recordedJob{
		&messages.JobRecord{Id: string(id), Spec: spec, Owner: &messages.Principal{Name: owner}, Sealed: sealed}, a,
	}
}

func (m recorded) Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	of, ok := m[id]
	if !ok {
		return nil, nil, store.ErrNotFound
	}
	return of.record, []*messages.AttemptRecord{of.attempt}, nil
}

func (recorded) History(store.Past) (store.Page, error) { return store.Page{}, nil }
