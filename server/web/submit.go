package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file submits jobs from the page. A job file goes to the server, and the server never sends it back: an answer
// has the errors of the file, or the name and the size of the job. For a copy of a job, the page sends only the ID,
// and the scheduler makes the copy.

// JobFiles reads job files. The program that serves the page implements it.
type JobFiles interface {
	// Read returns the jobs in a file, or the errors of the file.
	Read(text []byte) ([]*messages.JobSpec, []Problem)
	// Precede replaces the names of earlier jobs in a spec by IDs.
	Precede(ctx context.Context, on api.SynapseClient, spec *messages.JobSpec) error
}

// Problem is an error in a job file. It can quote a part of the file. The page sends it only as the answer to the
// request with the file, and logs it nowhere.
type Problem struct {
	Line   int    `json:"line,omitempty"` // 0: the whole file
	Column int    `json:"column,omitempty"`
	Path   string `json:"path,omitempty"`
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

const (
	// maxFile limits the size of a job file. Larger files are submitted with the command line.
	maxFile = 64 << 10
	// maxFiled limits a request with a job file, in which JSON can escape every character.
	maxFiled = 6*maxFile + maxAsked
)

// filing is a request with a job file.
type filing struct {
	File string `json:"file"`
	ID   string `json:"id,omitempty"` // equal for repetitions of one submit
}

// filed describes the job of a file. It contains nothing that the job runs.
type filed struct {
	Problems []Problem `json:"problems,omitempty"`
	Name     string    `json:"name,omitempty"`
	Asks     []amount  `json:"asks,omitempty"`
	Hash     string    `json:"hash,omitempty"` // SHA-256 of the file
	User     string    `json:"user,omitempty"`
	Job      string    `json:"job,omitempty"` // ID of the submitted job
	Hint     string    `json:"hint,omitempty"`
	Trial    *trial    `json:"trial,omitempty"`
}

// trial is the result of a dry run.
type trial struct {
	Waits string   `json:"waits,omitempty"` // empty: it would start now
	Ahead int32    `json:"ahead,omitempty"`
	Nodes []string `json:"nodes,omitempty"`
	Free  int64    `json:"free,omitempty"`
}

// barSubmit returns why a user may not submit jobs from this page. It returns nil if the user may.
func (p *Page) barSubmit(who *api.WhoAmIReply) error {
	switch {
	case p.o.Files == nil:
		return &mistake{"this web UI does not submit jobs: use `synapse-cli submit`", http.StatusForbidden}
	case p.o.Open, who.GetCluster() == "":
		return &mistake{"the web UI submits jobs only if users log in: start the scheduler with --tls, or use " +
			"`synapse-cli submit`", http.StatusForbidden}
	case !slices.ContainsFunc(who.GetRights(), func(r *api.Right) bool { return r.GetName() == rightToSubmit }):
		return &mistake{who.GetName() + " (" + who.GetRole() + ") may not submit jobs from the web UI: the permission is " +
			rightToSubmit, http.StatusForbidden}
	}
	return nil
}

// rightToSubmit is the right that the scheduler requires for each submit from the page.
const rightToSubmit = "submit-web"

// submitter returns the user of a request, if the user may submit jobs from this page. Only this page can send its
// requests as JSON: a form on another site cannot, even in a browser that tells nothing about the origin.
func (p *Page) submitter(r *http.Request) (*api.WhoAmIReply, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &mistake{"the request must have the content type application/json", http.StatusUnsupportedMediaType}
	}
	who, err := asked(r).WhoAmI(r.Context(), &api.WhoAmI{})
	if err != nil {
		return nil, err
	}
	return who, p.barSubmit(who)
}

// fileAction does something with the job of a file, and completes the answer.
type fileAction func(context.Context, api.SynapseClient, filing, *messages.JobSpec, *filed) error

// filed returns a handler of requests with a job file.
func (p *Page) filed(do fileAction) http.HandlerFunc {
	return p.answeredUpTo(maxFiled, func(r *http.Request) (any, error) {
		who, err := p.submitter(r)
		if err != nil {
			return nil, err
		}
		q, err := filingOf(r)
		if err != nil {
			return nil, err
		}
		done, err := p.checks.begin(r.Context(), guestOf(r).Whom)
		if err != nil {
			return nil, err
		}
		defer done()
		spec, problems := p.read(q.File)
		if problems != nil {
			return &filed{Problems: problems}, nil
		}
		hash := sha256.Sum256([]byte(q.File))
		answer := &filed{Name: spec.Called(), Asks: amountsOf(spec), Hash: hex.EncodeToString(hash[:]), User: who.GetName()}
		return answer, do(r.Context(), asked(r), q, spec, answer)
	})
}

// filingOf reads a request. The errors of the decoder do not quote the file.
func filingOf(r *http.Request) (q filing, err error) {
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	err = in.Decode(&q)
	switch large := (*http.MaxBytesError)(nil); {
	case errors.As(err, &large), err == nil && len(q.File) > maxFile:
		return q, &mistake{fmt.Sprintf("the job file is larger than %d KiB: submit it with `synapse-cli submit`",
			maxFile>>10), http.StatusRequestEntityTooLarge}
	case err != nil:
		return q, &mistake{text: "malformed request"}
	case strings.Trim(q.ID, idChars) != "" || len(q.ID) > 64:
		return q, &mistake{text: "id is malformed"}
	}
	return q, nil
}

const idChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

// requestID returns the request ID of a submit, so that a repeated request submits no second job.
func requestID(of string) string {
	if of == "" {
		of = rand.Text()
	}
	return "web-" + of
}

// read returns the job of a file, or the errors of the file. It reads nothing else: a value that the command line
// would read from a file or variable of the user's host is refused, because it would come from the server's host.
func (p *Page) read(text string) (*messages.JobSpec, []Problem) {
	if messages.IsScript([]byte(text)) {
		return nil, []Problem{{Line: 1, Column: 1, Text: "is a script, and not a job file",
			Hint: "submit the script with `synapse-cli submit`"}}
	}
	specs, problems := p.o.Files.Read([]byte(text))
	switch {
	case len(problems) > 0:
		return nil, problems
	case len(specs) != 1:
		return nil, []Problem{{Text: fmt.Sprintf("contains %d jobs", len(specs)),
			Hint: "submit one job at a time, or use `synapse-cli submit -f FILE`"}}
	case len(specs[0].GetSecrets()) > 0:
		return nil, []Problem{{Path: "spec.secrets", Text: "the web UI cannot read the values of secrets",
			Hint: "submit the job with `synapse-cli submit -f FILE`"}}
	}
	return specs[0], nil
}

// check only reads the file.
func (p *Page) check(context.Context, api.SynapseClient, filing, *messages.JobSpec, *filed) error {
	return nil
}

// try asks the scheduler where and when the job would start.
func (p *Page) try(ctx context.Context, on api.SynapseClient, _ filing, spec *messages.JobSpec, answer *filed) error {
	if err := p.o.Files.Precede(ctx, on, spec); err != nil {
		return err
	}
	reply, err := on.DryRun(ctx, &messages.DryRun{Spec: spec.Bare(), WebSource: source(answer)})
	if err != nil {
		return err
	}
	answer.Hint = reply.GetOutcome().GetHint()
	answer.Trial = &trial{reply.GetWaits(), reply.GetAhead(), reply.GetNodes(), reply.GetFreeUnixMs()}
	return nil
}

func source(of *filed) string { return "sha256:" + of.Hash }

// submit submits the job.
func (p *Page) submit(ctx context.Context, on api.SynapseClient, q filing, spec *messages.JobSpec, answer *filed,
) error {
	if err := p.o.Files.Precede(ctx, on, spec); err != nil {
		return err
	}
	send := on.Submit
	if spec.GetScript() != nil {
		send = on.SubmitScript
	}
	reply, err := send(ctx, &messages.Submit{RequestId: requestID(q.ID), Spec: spec, WebSource: source(answer)})
	answer.Job, answer.Hint = reply.GetJob(), reply.GetOutcome().GetHint()
	return err
}

// repetition is a request to submit a copy of a job.
type repetition struct {
	Of string `json:"of"`
	ID string `json:"id,omitempty"`
}

// again submits a copy of a job, of which this process sees only the ID.
func (p *Page) again(r *http.Request) (any, error) {
	who, err := p.submitter(r)
	if err != nil {
		return nil, err
	}
	var q repetition
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	if err := in.Decode(&q); err != nil || q.Of == "" || strings.Trim(q.ID, idChars) != "" || len(q.ID) > 64 {
		return nil, &mistake{text: "malformed request: give the ID of a job"}
	}
	reply, err := asked(r).Submit(r.Context(), &messages.Submit{RequestId: requestID(q.ID), Job: q.Of,
		WebSource: messages.WebAgain})
	if err != nil {
		if code, _ := p.o.Said(err); code == messages.Code_CODE_INVALID { // the text can quote the command
			return nil, &mistake{text: "job " + q.Of + " cannot be submitted again without a change: use " +
				"`synapse-cli submit --from " + q.Of + "`"}
		}
		return nil, err
	}
	return &filed{Job: reply.GetJob(), User: who.GetName(), Hint: reply.GetOutcome().GetHint()}, nil
}
