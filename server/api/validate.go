package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file validates the requests that only the gateway answers. Each error contains the field, the reason and a
// fix, as in package messages.

// Validate refuses a request that cannot match any output.
func (x *ReadLogs) Validate() error {
	if err := (&messages.GetJob{Principal: x.GetPrincipal(), Job: x.GetJob()}).Validate(); err != nil {
		return err
	}
	if n := len(x.GetRanks()); n > messages.MaxGangTasks {
		return refusal("ranks", fmt.Sprintf("has %d entries, more than %d", n, messages.MaxGangTasks),
			"omit it for all")
	}
	seen := make(map[int32]bool, len(x.GetRanks()))
	for i, rank := range x.GetRanks() {
		field := fmt.Sprintf("ranks[%d]", i)
		switch {
		case rank < 0 || rank >= messages.MaxGangTasks:
			return refusal(field, fmt.Sprintf("is %d, outside 0 to %d", rank, messages.MaxGangTasks-1), "")
		case seen[rank]:
			return refusal(field, fmt.Sprintf("%d is a duplicate", rank), "")
		}
		seen[rank] = true
	}
	if err := x.validFrom(); err != nil {
		return err
	}
	switch {
	case x.GetTailLines() < 0:
		return refusal("tail_lines", fmt.Sprintf("is %d, and must not be negative", x.GetTailLines()), fromBeginning)
	case x.GetTailBytes() < 0:
		return refusal("tail_bytes", fmt.Sprintf("is %d, and must not be negative", x.GetTailBytes()), fromBeginning)
	case x.GetTailBytes() > maxTailBytes:
		return refusal("tail_bytes", fmt.Sprintf("is %d, more than %d", x.GetTailBytes(), maxTailBytes), fromBeginning)
	case x.GetFollow() && x.GetPrevious():
		return refusal("follow", "cannot be combined with previous",
			"omit follow: an ended attempt writes no more output")
	}
	return nil
}

// The limits of one request for past states.
const (
	maxMomentsMs = 24 * 60 * 60 * 1000
	maxSumsMs    = 32 * maxMomentsMs
	maxSteps     = 2_000
)

// Validate refuses an invalid time, and more data than one request may read.
func (x *ReadPast) Validate() error {
	span := x.GetUntilUnixMs() - x.GetAtUnixMs()
	switch {
	case x.GetAtUnixMs() < 0:
		return refusal("at_unix_ms", fmt.Sprintf("is %d, and must not be negative", x.GetAtUnixMs()), "")
	case span < 0 || x.GetUntilUnixMs() < 0:
		return refusal("until_unix_ms", "is before at_unix_ms", "use an end after the start")
	case x.GetStepMs() < 0:
		return refusal("step_ms", fmt.Sprintf("is %d, and must not be negative", x.GetStepMs()),
			"omit it for single moments")
	case x.GetStepMs() == 0 && span > maxMomentsMs:
		return refusal("until_unix_ms", "is more than a day after at_unix_ms", "request a shorter time")
	case x.GetStepMs() > 0 && (span > maxSumsMs || span/x.GetStepMs() > maxSteps):
		return refusal("step_ms", fmt.Sprintf("makes more than %d steps, or the time has more than 32 days", maxSteps),
			"request longer steps, or a shorter time")
	}
	return nil
}

// Validate refuses a command that cannot run.
func (x *ExecIn) Validate() error {
	if err := (&messages.GetJob{Principal: x.GetPrincipal(), Job: x.GetJob()}).Validate(); err != nil {
		return err
	}
	length := 0
	for _, word := range slices.Concat(x.GetCommand(), x.GetEnv()) {
		if length += len(word) + 1; strings.ContainsRune(word, 0) {
			return refusal("command", "contains a NUL byte", "remove it: arguments and variables cannot contain NUL")
		}
	}
	switch {
	case x.GetRank() < 0 || x.GetRank() >= messages.MaxGangTasks:
		return refusal("rank", fmt.Sprintf("is %d, outside 0 to %d", x.GetRank(), messages.MaxGangTasks-1), "")
	case len(x.GetCommand()) == 0 || x.GetCommand()[0] == "":
		return refusal("command", "is empty", "give the command to run")
	case length > maxExecBytes || len(x.GetCommand())+len(x.GetEnv()) > messages.MaxCommandArgs:
		return refusal("command", fmt.Sprintf("has more than %d bytes or %d words, with env", maxExecBytes,
			messages.MaxCommandArgs), "put long data into a file, or into stdin")
	}
	for i, line := range x.GetEnv() {
		if name, _, ok := strings.Cut(line, "="); !ok || name == "" {
			return refusal(fmt.Sprintf("env[%d]", i), fmt.Sprintf("is %.40q", line), "write NAME=value")
		}
	}
	return nil
}

// maxExecBytes limits the command of an exec session, including its variables.
const maxExecBytes = 64 << 10

// validFrom refuses positions that no earlier reply can have contained.
func (x *ReadLogs) validFrom() error {
	if n := len(x.GetFrom()); n > 2*messages.MaxGangTasks {
		text := fmt.Sprintf("has %d entries, more than %d", n, 2*messages.MaxGangTasks)
		return refusal("from", text, "omit it for all")
	}
	if len(x.GetFrom()) > 0 && x.GetAttempt() == nil {
		return refusal("attempt", "is missing, but from is set", "use the attempt of the last part that was read")
	}
	for i, p := range x.GetFrom() {
		if p.GetRank() < 0 || p.GetRank() >= messages.MaxGangTasks || p.GetOffset() < 0 {
			return refusal(fmt.Sprintf("from[%d]", i), fmt.Sprintf("is byte %d of rank %d", p.GetOffset(), p.GetRank()), "")
		}
	}
	return nil
}

// maxTailBytes limits the tail of an output, because a gateway keeps the tail in memory while it searches for the
// end.
const maxTailBytes = 16 << 20

// fromBeginning is the hint for an invalid tail.
const fromBeginning = "use 0 for the beginning"

// Validate refuses a digest that no script can have.
func (x *ReadScript) Validate() error {
	if n := len(x.GetDigest()); n != 64 {
		return refusal("digest", fmt.Sprintf("has %d characters, and a digest has 64", n),
			"use the digest in the job's spec")
	}
	return nil
}

// Validate refuses a request without an attempt.
func (x *ReadSecrets) Validate() error {
	return validTask(x.GetJob(), x.GetAttempt(), 0)
}

// Validate refuses a request without a task or without a verb.
func (x *OwnJob) Validate() error {
	if _, known := OwnVerb_name[int32(x.GetVerb())]; !known || x.GetVerb() == OwnVerb_OWN_VERB_UNSPECIFIED {
		return refusal("verb", fmt.Sprintf("is %d, which is unknown", x.GetVerb()), "use SHOW, REQUEUE or CANCEL")
	}
	return validTask(x.GetJob(), x.GetAttempt(), x.GetRank())
}

// validTask refuses a task that cannot exist.
func validTask(job string, attempt *messages.Token, rank int32) error {
	switch n := len(job); {
	case n == 0 || n > messages.MaxIDBytes:
		return refusal("job", fmt.Sprintf("has %d characters, and an ID has 1 to %d", n, messages.MaxIDBytes), "")
	case attempt.GetEpoch() == 0:
		return refusal("attempt", "is missing", "use the attempt that has tasks on the node")
	case rank < 0 || rank >= messages.MaxGangTasks:
		return refusal("rank", fmt.Sprintf("is %d, outside 0 to %d", rank, messages.MaxGangTasks-1), "")
	}
	return nil
}

// Validate accepts every request, because the request has no fields.
func (x *Cluster) Validate() error { return nil }

// Validate accepts every request, because the request has no fields.
func (x *WhoAmI) Validate() error { return nil }

// MaxPassTTL limits the lifetime of a user's token, so that a lost token expires.
const MaxPassTTL = 366 * 24 * time.Hour

// Validate refuses a token without a user or without an expiry.
func (x *CreatePass) Validate() error {
	roles, who := identity.People, identity.Identity{Cluster: "c", Role: identity.Role(x.GetRole()), Name: x.GetName()}
	switch ttl := x.GetTtlMs(); {
	case len(x.GetHash()) != messages.PassHashBytes:
		return refusal("hash", fmt.Sprintf("has %d bytes, and a hash has %d", len(x.GetHash()), messages.PassHashBytes),
			"")
	case !slices.Contains(roles, who.Role):
		return refusal("role", fmt.Sprintf("%.64q is not a role of users", x.GetRole()), "use "+
			identity.Listed(roles))
	case who.Check() != nil:
		return refusal("name", who.Check().Error(), "")
	case ttl <= 0 || ttl > MaxPassTTL.Milliseconds():
		return refusal("ttl_ms", fmt.Sprintf("is %d", ttl), fmt.Sprintf("use 1 to %d", MaxPassTTL.Milliseconds()))
	}
	return nil
}

// Validate accepts every request, because the request has no fields.
func (x *ListPasses) Validate() error { return nil }

// Validate refuses a request without a token ID.
func (x *RevokePass) Validate() error {
	if x.GetId() == "" {
		return refusal("id", "is missing", "run `synapse-cli token list` for a list")
	}
	return nil
}

// Validate refuses fields that only the first client could send and that mean nothing now. All other checks apply
// to the job that is built from the request.
func (x *SubmitJobRequest) Validate() error {
	switch {
	case x.GetId() == "":
		return refusal("id", "is missing", "give the job a unique ID, so that a repeated call is recognized")
	case !utf8.ValidString(x.GetId()):
		return refusal("id", "contains unprintable characters", "")
	case x.GetMinCpu() < 0:
		return refusal("min_cpu", fmt.Sprintf("is %d, and must not be negative", x.GetMinCpu()), "")
	case x.GetMinMemory() < 0:
		return refusal("min_memory", fmt.Sprintf("is %d, and must not be negative", x.GetMinMemory()), "")
	case x.GetMinGpu() < 0:
		return refusal("min_gpu", fmt.Sprintf("is %d, and must not be negative", x.GetMinGpu()), "")
	}
	return nil
}

func refusal(field, text, hint string) error {
	return &messages.FieldError{Field: field, Text: text, Hint: hint}
}
