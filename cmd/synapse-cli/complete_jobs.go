package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file completes jobs by name and by ID, elements of arrays, labels and owners.

// completeJobs completes jobs in any phase.
func (a *app) completeJobs(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeSome(args, prefix, func(*messages.JobStatus) bool { return true })
}

// completeLive completes unfinished jobs, for commands that change jobs.
func (a *app) completeLive(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeSome(args, prefix, func(j *messages.JobStatus) bool { return !over(j) })
}

// completeSome completes the jobs for which wanted returns true, without those that the command line already names.
func (a *app) completeSome(args []string, prefix string, wanted func(*messages.JobStatus) bool) ([]string,
	cobra.ShellCompDirective) {
	kind, bare, has := strings.Cut(prefix, "/") // as in kubectl: job/NAME
	if !has || kind != "job" && kind != "jobs" {
		kind, bare = "", prefix
	} else {
		kind += "/"
	}
	words, directive := a.complete(bare, func(ctx context.Context, cl *client.Client) ([]string, error) {
		all, err := cl.Jobs(ctx, &messages.ListJobs{Limit: messages.MaxPageEntries})
		if err != nil {
			return nil, err
		}
		jobs := slices.DeleteFunc(all, func(j *messages.JobStatus) bool { return !wanted(j) })
		if at := strings.LastIndexByte(bare, '_'); at > 0 {
			if array := arrayNamed(jobs, bare[:at]); array != nil {
				return elementWords(ctx, cl, array, bare[:at])
			}
		}
		return jobWords(jobs, bare), nil
	})
	words = slices.DeleteFunc(words, func(w string) bool {
		word, _, _ := strings.Cut(w, "\t")
		return slices.Contains(args, word) || slices.Contains(args, kind+word)
	})
	for i := range words {
		words[i] = kind + words[i]
	}
	return words, directive
}

// jobWords returns the names and the IDs of jobs with their phase and owner. Without a prefix, a job with a unique name
// is listed only by its name.
func jobWords(jobs []*messages.JobStatus, prefix string) (words []string) {
	count := map[string]int{}
	for _, j := range jobs {
		count[j.GetRecord().GetSpec().Called()]++
	}
	var ids []string
	for _, j := range jobs {
		id, name := j.GetRecord().GetId(), j.GetRecord().GetSpec().Called()
		unique := name != "" && name != id && count[name] == 1
		if unique {
			words = append(words, described(name, j, id))
		}
		if !unique || prefix != "" {
			ids = append(ids, described(id, j, name))
		}
	}
	return append(words, ids...)
}

// described returns a completion with the phase and the owner of a job, and with its other name.
func described(word string, j *messages.JobStatus, other string) string {
	text := j.GetPhase()
	if owner := j.GetRecord().Whose(); owner != "" {
		text += ", " + owner
	}
	if other != "" {
		text += ", " + other
	}
	return messages.OneLine(word) + "\t" + messages.OneLine(text)
}

// arrayNamed returns the array with an ID or a name, or nil.
func arrayNamed(jobs []*messages.JobStatus, word string) *messages.JobStatus {
	at := slices.IndexFunc(jobs, func(j *messages.JobStatus) bool {
		r := j.GetRecord()
		return r.GetSpec().GetArray() != nil && (r.GetId() == word || r.GetSpec().Called() == word)
	})
	if at < 0 {
		return nil
	}
	return jobs[at]
}

// elementWords returns the elements of an array with their phases.
func elementWords(ctx context.Context, cl *client.Client, array *messages.JobStatus, word string) ([]string, error) {
	r := array.GetRecord()
	all, err := cl.Jobs(ctx, &messages.ListJobs{Array: r.GetId(), Limit: messages.MaxPageEntries})
	if err != nil {
		return nil, err
	}
	phases := map[string]string{}
	for _, j := range all {
		phases[j.GetRecord().GetId()] = j.GetPhase()
	}
	var words []string
	for place := range r.GetSpec().GetArray().Len() {
		index := r.GetSpec().GetArray().Index(place)
		phase := phases[messages.ElementID(r.GetId(), index)]
		if state := r.ElementRecord(index).GetState(); phase == "" && state.Terminal() {
			phase = messages.EndPhase(state)
		}
		if phase == "" {
			phase = messages.PhaseQueued
		}
		words = append(words, word+"_"+strconv.Itoa(int(index))+"\t"+phase+", "+r.Whose())
	}
	return words, nil
}

// completeNodes completes nodes with their state and their free GPUs.
func (a *app) completeNodes(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.complete(prefix, func(ctx context.Context, cl *client.Client) ([]string, error) {
		all, err := cl.Nodes(ctx)
		var words []string
		for _, n := range all {
			text := messages.ConditionOf(n)
			if total := n.GetLedger().GetTotal().GetMilliGpu(); total > 0 {
				text += ", " + jobfile.FormatMilli(n.GetLedger().GetFree().GetMilliGpu()) + " of " +
					jobfile.FormatMilli(total) + " GPUs free"
			}
			if id := n.GetRecord().GetId(); !slices.Contains(args, id) {
				words = append(words, id+"\t"+text)
			}
		}
		return words, err
	})
}

// completeJobLabels completes key=value with the labels of jobs.
func (a *app) completeJobLabels(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.complete(prefix, func(ctx context.Context, cl *client.Client) ([]string, error) {
		all, err := cl.Jobs(ctx, &messages.ListJobs{Limit: messages.MaxPageEntries})
		var words []string
		for _, j := range all {
			words = append(words, labelWords(j.GetRecord().GetSpec().GetLabels())...)
		}
		return counted(words, "job"), err
	})
}

// completeNodeLabels completes key=value with the labels and topology domains of nodes.
func (a *app) completeNodeLabels(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.complete(prefix, func(ctx context.Context, cl *client.Client) ([]string, error) {
		all, err := cl.Nodes(ctx)
		var words []string
		for _, n := range all {
			words = append(words, labelWords(n.GetRecord().GetAnnouncement().GetLabels())...)
			words = append(words, labelWords(n.GetRecord().GetAnnouncement().GetPlace())...)
		}
		return counted(words, "node"), err
	})
}

// completeOwners completes the owners of jobs.
func (a *app) completeOwners(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.complete(prefix, func(ctx context.Context, cl *client.Client) ([]string, error) {
		all, err := cl.Jobs(ctx, &messages.ListJobs{Limit: messages.MaxPageEntries})
		var words []string
		for _, j := range all {
			words = append(words, j.GetRecord().Whose())
		}
		return counted(words, "job"), err
	})
}

func labelWords(labels []*messages.Label) (words []string) {
	for _, l := range labels {
		words = append(words, l.GetKey()+"="+l.GetValue())
	}
	return words
}

// counted returns each word once, in alphabetical order, with the number of objects that have it.
func counted(words []string, noun string) (all []string) {
	slices.Sort(words)
	for i := 0; i < len(words); {
		n := 1
		for i+n < len(words) && words[i+n] == words[i] {
			n++
		}
		text := strconv.Itoa(n) + " " + noun
		if n > 1 {
			text += "s"
		}
		if words[i] != "" {
			all = append(all, messages.OneLine(words[i])+"\t"+text)
		}
		i += n
	}
	return all
}

// changesNodes lists the commands whose -l selects nodes.
var changesNodes = []string{"nodes", "drain", "cordon", "uncordon", "remove", "note"}

// completeEverywhere sets the completion of flags that many commands have.
func (a *app) completeEverywhere(c *cobra.Command) {
	complete := func(flag string, words cobra.CompletionFunc) {
		if _, done := c.GetFlagCompletionFunc(flag); c.Flags().Lookup(flag) != nil && !done {
			a.completeFlag(c, flag, words)
		}
	}
	if slices.Contains(changesNodes, c.Name()) {
		complete("label", several(a.completeNodeLabels))
	} else {
		complete("label", several(a.completeJobLabels))
	}
	complete("node-selector", several(a.completeNodeLabels))
	complete("owner", a.completeOwners)
	complete("after", several(a.completeJobs))
	complete("queue", a.completeQueues)
	if c.Name() == "jobs" {
		complete("array", a.completeJobs)
	}
	if c.Name() == "wait" {
		a.completeWords(c, "for", []string{"condition=complete", "condition=failed", "condition=running", "delete",
			"phase=queued", "phase=running"})
	}
	for _, below := range c.Commands() {
		a.completeEverywhere(below)
	}
}
