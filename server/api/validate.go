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

// This file owns the checks of requests that only the gateway answers. Like those of messages, a refusal has the field,
// the reason, and the way out.

// Validate refuses a request that no output can answer.
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

// The bounds of what is asked of the past at once.
const (
	maxMomentsMs = 24 * 60 * 60 * 1000
	maxSumsMs    = 32 * maxMomentsMs
	maxSteps     = 2_000
)

// Validate refuses a time that is none, or more of it than is told at once.
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

// Validate refuses a process that cannot be run.
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

// maxExecBytes bounds an exec session's command with its variables.
const maxExecBytes = 64 << 10

// validFrom refuses positions that no reader could have reached.
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

// maxTailBytes bounds the tail of an output: a gateway holds it while it looks for the end.
const maxTailBytes = 16 << 20

// fromBeginning is the way out of an impossible tail.
const fromBeginning = "use 0 for the beginning"

// Validate refuses a digest that no script can have.
func (x *ReadScript) Validate() error {
	if n := len(x.GetDigest()); n != 64 {
		return refusal("digest", fmt.Sprintf("has %d characters, and a digest has 64", n),
			"use the digest in the job's spec")
	}
	return nil
}

// Validate refuses what names no attempt.
func (x *ReadSecrets) Validate() error {
	switch n := len(x.GetJob()); {
	case n == 0 || n > messages.MaxIDBytes:
		return refusal("job", fmt.Sprintf("has %d characters, and an ID has 1 to %d", n, messages.MaxIDBytes), "")
	case x.GetAttempt().GetEpoch() == 0:
		return refusal("attempt", "is missing", "use the attempt that has tasks on the node")
	}
	return nil
}

// Validate has nothing to refuse.
func (x *Cluster) Validate() error { return nil }

// Validate has nothing to refuse.
func (x *WhoAmI) Validate() error { return nil }

// MaxPassTTL bounds the time for which a person's token is good: one that is lost and forgotten ends by itself.
const MaxPassTTL = 366 * 24 * time.Hour

// Validate refuses a token that is of nobody, or good for ever.
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

// Validate has nothing to refuse.
func (x *ListPasses) Validate() error { return nil }

// Validate refuses what names no token.
func (x *RevokePass) Validate() error {
	if x.GetId() == "" {
		return refusal("id", "is missing", "run `synapse-cli token list` for a list")
	}
	return nil
}

// Validate refuses what the first clients' call can contain and no job can mean. The job that is made of it is checked
// for everything else.
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
