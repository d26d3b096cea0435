package main

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/slurmcmd"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests a scheduler whose texts are all hostile. No command may print control characters from them.

// evil is a text with all kinds of control characters. Its second line begins like a line of a command.
const evil = "a\r\x1b[2J\u009b31m\u202e\u2028\x7f\u0085\n" + forged + "\u202e\x1b"

// evilTexts serves the client API. Each answer is a message in which all texts are hostile and all jobs have
// finished. A stream ends with an error after one message. Without keys the server uses plaintext.
func evilTexts(t testing.TB, evil string, keys credentials.TransportCredentials) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(keys), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		name, _ := grpc.MethodFromServerStream(stream)
		method, err := methodOf(name)
		if err != nil {
			return status.Error(codes.Unimplemented, err.Error())
		}
		kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Output().FullName())
		if err != nil {
			return err
		}
		reply := kind.New()
		fill(reply, evil, 6)
		settle(reply)
		if err := stream.SendMsg(reply.Interface()); err != nil || !method.IsStreamingServer() {
			return err
		}
		return api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_ALLOWED, Field: evil, Text: evil, Hint: evil})
	}))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func methodOf(path string) (protoreflect.MethodDescriptor, error) {
	service, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, err
	}
	return found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name)), nil
}

// settle changes a message into an answer after which a command continues: outcomes are OK, pages are the last
// ones, and jobs have finished.
func settle(m protoreflect.Message) {
	switch x := m.Interface().(type) {
	case *messages.Outcome:
		proto.Reset(x)
		x.Code = messages.Code_CODE_OK
	case *messages.ListJobsReply:
		x.Next = ""
	case *messages.ListNodesReply:
		x.Next = ""
	case *messages.JobStatus:
		x.Phase = messages.PhaseFailed
		x.Record.State = messages.JobState_JOB_STATE_FAILED
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				settle(v.List().Get(i).Message())
			}
		default:
			settle(v.Message())
		}
		return true
	})
}

// evilLines lists the commands that print text from a scheduler, in addition to those in shows. FILE is a job file.
var evilLines = []string{
	"submit FILE", "submit --dry-run FILE", "submit --wait FILE", "apply -f QUEUES", "apply --dry-run -f QUEUES",
	"attach j1", "checkpoint j1", "cordon n1 --reason x", "uncordon n1", "remove n1 --gone --reason x", "note n1 x",
	"update j1 --priority 3", "events", "events -o json", "watch", "watch -o yaml", "watch j1", "watch --nodes",
	"token list", "token list -o json", "token revoke x", "token create --role viewer --user ann --out ann.token",
	"version", "history -o wide", "exec j1 -- true", "cp j1:/x y", "run -- true", "port-forward j1 8080",
	"debug bundle --out b.tgz", "top --once", "slurm sacct", "slurm scontrol show job",
	"slurm sbatch --wrap true", "slurm scancel 1", "slurm srun true", "slurm squeue -o %j", "slurm sinfo -N -l",
}

// untold lists the commands that print no text of others, or that run until they are stopped. foreigners lists
// those whose hostile text does not come from a scheduler; evil_here_test.go tests them.
var (
	untold     = "certify completion docs help init salloc slurm"
	foreigners = "audit context contexts deploy login logout simulate up web"
)

// unsteered fails the test if the output of a command contains a control character, or a line that other text has
// started.
func unsteered(t *testing.T, line string, r result) {
	t.Helper()
	for out := range strings.SplitSeq(r.out+"\n"+r.err, "\n") {
		out = strings.ReplaceAll(out, "\t", "")
		if strings.ContainsFunc(out, messages.Steers) || strings.HasPrefix(out, forged) {
			t.Errorf("%q shows %q", line, out)
		}
	}
	if strings.Contains(r.err, "yaml: control characters") && strings.HasSuffix(line, "-o yaml") {
		t.Errorf("%q shows no YAML: %s", line, r.err)
	}
	if r.out+r.err == "" {
		t.Errorf("%q shows nothing, and ends with %d", line, r.code)
	}
}

// TestEvilTexts checks that no answer of a scheduler can put a control character or a new line into the output of a
// command. Each command must be in one of the lists.
func TestEvilTexts(t *testing.T) {
	address := evilTexts(t, evil, nil)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"job.yaml":    "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: x}\nspec: {image: host, command: [\"true\"]}\n",
		"queues.yaml": "apiVersion: synapse/v1\nkind: Queues\nqueues:\n  - name: q\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := append(evilLines, shows...)
	for _, line := range lines {
		words := strings.Fields(strings.NewReplacer("FILE", "job.yaml", "QUEUES", "queues.yaml").Replace(line))
		if slices.Contains(slurmcmd.Names(), words[0]) {
			words = append([]string{"slurm"}, words...)
		}
		r := cli(address, append([]string{"--retry", "0s"}, words...)...)
		unsteered(t, line, r)
	}
	for _, c := range newApp(nil, nil, nil, nil).root().Commands() {
		listed := strings.Contains(" "+untold+" "+foreigners+" ", " "+c.Name()+" ")
		for _, line := range lines {
			listed = listed || strings.HasPrefix(line+" ", c.Name()+" ")
		}
		if !listed && !c.Hidden {
			t.Errorf("%s is in no list", c.Name())
		}
	}
}
