package api

// This file tests how an Outcome is sent.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

func TestOutcomesTravel(t *testing.T) {
	seen := map[codes.Code]messages.Code{}
	for number, name := range messages.Code_name {
		code := messages.Code(number)
		o := &messages.Outcome{Code: code, Field: "spec.image", Text: "is missing", Hint: "name one"}
		err := StatusOf(o)
		if code == messages.Code_CODE_OK {
			if err != nil {
				t.Errorf("all went well, and it is %v", err)
			}
			continue
		}
		if got := OutcomeOf(fmt.Errorf("submit: %w", err)); !proto.Equal(got, o) {
			t.Errorf("%s came back as %v", name, got)
		}
		s, _ := status.FromError(err)
		if s.Message() != "spec.image: is missing (name one)" {
			t.Errorf("%s says %q", name, s.Message())
		}
		if other, taken := seen[s.Code()]; taken {
			t.Errorf("%v and %v are both %v", code, other, s.Code())
		}
		seen[s.Code()] = code
		// A proxy that removes the detail keeps the code and the text.
		if got := OutcomeOf(status.Error(s.Code(), s.Message())); got.Code != code || got.Text != s.Message() {
			t.Errorf("%s without its detail is %v", name, got)
		}
	}
	if StatusOf(nil) == nil {
		t.Error("no outcome is a good one")
	}
	if OutcomeOf(nil) != nil {
		t.Error("no error has an outcome")
	}
	for _, err := range []error{context.DeadlineExceeded, errors.New("x"), status.Error(codes.DeadlineExceeded, "late"),
		status.Error(codes.Internal, "x")} {
		if o := OutcomeOf(err); o.GetCode() != messages.Code_CODE_UNSPECIFIED || o.Text == "" {
			t.Errorf("%v is %v", err, o)
		}
	}
	if o := OutcomeOf(status.Error(codes.Unauthenticated, "who?")); o.Code != messages.Code_CODE_NOT_ALLOWED {
		t.Errorf("unauthenticated is %v", o)
	}
}

func TestValidate(t *testing.T) {
	who := &messages.Principal{Name: "a"}
	for _, c := range []struct {
		q     interface{ Validate() error }
		field string // empty: valid
	}{
		{&ReadLogs{Principal: who, Job: "j", Ranks: []int32{0, 65_535}, TailBytes: 5, Follow: true}, ""},
		{&ReadLogs{Job: "j"}, "principal"},
		{&ReadLogs{Principal: who}, "job"},
		{&ReadLogs{Principal: who, Job: "a/b"}, "job"},
		{&ReadLogs{Principal: who, Job: "j", Ranks: []int32{3, -1}}, "ranks[1]"},
		{&ReadLogs{Principal: who, Job: "j", Ranks: []int32{65_536}}, "ranks[0]"},
		{&ReadLogs{Principal: who, Job: "j", Ranks: []int32{3, 3}}, "ranks[1]"},
		{&ReadLogs{Principal: who, Job: "j", Ranks: make([]int32, 65_537)}, "ranks"},
		{&ReadLogs{Principal: who, Job: "j", TailBytes: -1}, "tail_bytes"},
		{&ReadLogs{Principal: who, Job: "j", TailBytes: maxTailBytes + 1}, "tail_bytes"},
		{&ReadLogs{Principal: who, Job: "j", Follow: true, Previous: true}, "follow"},
		{&Cluster{}, ""},
		{&SubmitJobRequest{Id: "j", MinCpu: 1}, ""},
		{&SubmitJobRequest{}, "id"},
		{&SubmitJobRequest{Id: "\xff"}, "id"},
		{&SubmitJobRequest{Id: "j", MinCpu: -1}, "min_cpu"},
		{&SubmitJobRequest{Id: "j", MinMemory: -1}, "min_memory"},
		{&SubmitJobRequest{Id: "j", MinGpu: -1}, "min_gpu"},
	} {
		err := c.q.Validate()
		var f *messages.FieldError
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%v: %v", c.q, err)
		case c.field != "" && (!errors.As(err, &f) || f.Field != c.field):
			t.Errorf("%v: %v, and not of %s", c.q, err, c.field)
		}
	}
}
