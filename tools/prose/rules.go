package main

import (
	"regexp"
	"strings"
)

// This file defines the patterns that confuse readers.

// rule is one pattern.
type rule struct {
	name    string
	pattern *regexp.Regexp
	goal    int    // final maximum of occurrences
	instead string // what to write
	helpAt  bool   // it counts only in help texts
	errorAt bool   // it counts only in errors
	words   int    // instead of a pattern: a sentence with more words counts
}

// count returns the occurrences of a rule's pattern in a sentence.
func (r *rule) count(s sentence) int {
	if r.words > 0 {
		if len(strings.Fields(s.text)) > r.words {
			return 1
		}
		return 0
	}
	if r.helpAt && s.surface != help || r.errorAt && s.surface != errs {
		return 0
	}
	return len(r.pattern.FindAllString(s.text, -1))
}

// any returns a pattern of whole words.
func any(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`) }

// starts returns a pattern for the beginning of a sentence.
func starts(words string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + words + `)`) }

// rules lists all patterns, each with its final maximum.
var rules = []rule{
	{name: "clause-subject", goal: 10, instead: "begin with a noun: job, user, node, scheduler",
		pattern: starts(`(?i)(?:what|who|whoever|whose|whom|how \w+ (?:it|they|a|the)) (?:.*[^?])?$`)},
	{name: "fronted-of", goal: 10, instead: "subject, verb, object; then the condition",
		pattern: starts(`(?:Of (?:a|an|the|all|what|which|whom|one|each|several|how)|Never \w+ (?:is|are)|By which|For which) `)},
	{name: "question-order", goal: 0, instead: "if it was …",
		pattern: starts(`(?:Was|Were|Is|Are|Has|Have|Does|Did) (?:it|they|he|a|the) .*[^?]$`)},
	{name: "fronted-relative", goal: 20, instead: "a noun and a verb; no preposition before which, whom or what",
		pattern: any(`(?:of|in|by|for|from|with|to|at|on) (?:which|whom|what|whose)`)},
	{name: "where-for-if", goal: 20, instead: "if, when, on a platform, unless",
		pattern: regexp.MustCompile(`(?:^Where .*[^?]$|(?i:[,:;] where |and where ))`)},
	{name: "stands", goal: 0, instead: "is; or the noun first",
		pattern: any(`(?:stands?|lies?|lie) (?:which|what|who|whether|how|the|a|an|in|on|beneath|behind|before)`)},
	{name: "verb-what", goal: 40, instead: "a noun: refuses unsupported fields",
		pattern: any(`(?:refuses?|takes?|has|gets?|gives?|does|means|holds?|keeps?|gathers?|removes?|knows?|of) what`)},
	{name: "goes-by", goal: 5, instead: "uses, follows, applies", pattern: any(`(?:go|goes|gone|going|went) by`)},
	{name: "come", goal: 5, instead: "arrives, was submitted, was received", pattern: any(`(?:has|have|had) (?:just )?come`)},
	{name: "like-that", goal: 0, instead: "no matches, such", pattern: any(`(?:is|are) like (?:that|this)|of this kind`)},
	{name: "with-for-if", goal: 5, instead: "if there are several", pattern: starts(`With (?:several|one|none|neither|both|a second)\b`)},
	{name: "whoever", goal: 0, instead: "name the role: user, operator", pattern: any(`whoever|whom|whomever`)},
	{name: "nobody", goal: 10, instead: "name the role, or use a modal", pattern: any(`nobody|anybody|somebody|everybody|(?:by|for|to) people`)},
	{name: "told", goal: 10, instead: "reports, logs, returns, notifies, sends", pattern: any(`told|tell|tells|telling`)},
	{name: "hears", goal: 5, instead: "receives, reads, knows", pattern: any(`hears|heard|believes|believed`)},
	{name: "beside", goal: 0, instead: "next to, alongside, in addition to", pattern: any(`beside`)},
	{name: "goes-on", goal: 0, instead: "continues", pattern: any(`goes on|go on|went on|going on|runs runs on`)},
	{name: "is-over", goal: 0, instead: "has ended, has expired", pattern: any(`(?:is|are|was|were|be|being) over`)},
	{name: "idiom", goal: 0, instead: "fix, rarely, until, barely, again, or the thing itself",
		pattern: any(`mend|mends|mended|seldom|till|hardly|anew|likewise|meanwhile|by turns|of late|stand still`)},
	{name: "own", goal: 15, instead: "own + noun, separate, dedicated", pattern: any(`of its own|of their own|ours|theirs`)},
	{name: "house", goal: 0, instead: "package, architecture rule, limit",
		pattern: regexp.MustCompile(`(?i)\b(?:house|doorway|laws? of the|law of|walls?)\b`)},
	{name: "so-many", goal: 0, instead: "the number, or N", pattern: any(`so many|so often|so long as`)},
	{name: "way-out", goal: 0, instead: "fix, suggestion", pattern: any(`way out|ways out|comes of|come of it|at hand|whom it concerns`)},
	{name: "that-chain", goal: 10, instead: "repeat the noun; one that for each sentence",
		pattern: any(`that that|that is what|that was what|that stands|is what|are what|are those|is that of`)},
	{name: "private-noun", goal: 20, instead: "capacity, reserved nodes, backfill, overrun",
		pattern: any(`kept for|kept room|lent|slip|slips|slipped|firm promises?|moving promises?|the room of|headroom`)},
	{name: "machine", goal: 20, instead: "node, or host for the physical box", pattern: any(`machines?`)},
	{name: "figures", goal: 10, instead: "metrics", pattern: any(`figures`)},
	{name: "benched", goal: 0, instead: "backed off, unhealthy", pattern: any(`benched|unwell`)},
	{name: "dialogue", goal: 0, instead: "golden scenario", pattern: any(`dialogues?|shaken`)},
	{name: "history", goal: 0, instead: "a measurement has a date; reference says what is",
		pattern: any(`a slower day|before probes|as it was before|used to be|no longer was`)},
	{name: "help-begins", goal: 0, helpAt: true, instead: "begin with a noun or an imperative",
		pattern: regexp.MustCompile(`^(?i:and|by|of|likewise|the same|for|with|as|which|what|where|how|be|have) `)},
	{name: "pronoun", goal: 0, errorAt: true, instead: "begin with the noun: job is queued, not running",
		pattern: regexp.MustCompile(`(?i)(?:^|: )it (?:is|was|has|had|does|did|may|must|cannot|would) `)},
	{name: "there-is", goal: 0, errorAt: true, instead: "unknown topology level; no nodes match",
		pattern: regexp.MustCompile(`(?i)\bthere (?:is|are|was) (?:no|neither|nothing)\b`)},
	{name: "evasion", goal: 0, errorAt: true, instead: "unknown X; omit X; X is not supported; X is missing",
		pattern: any(`known here|is not known|leave \w+ out|left out|honoured|is not said|asked for|no set of|could ever`)},
	{name: "long", goal: 20, words: 35, instead: "one idea for each sentence, at most 25 words"},
}

// limit is a rule with a ceiling. Errors have separate ceilings.
type limit struct {
	name   string
	rule   *rule
	goal   int
	errors bool
}

// count returns the occurrences of a limit's pattern in a sentence.
func (l *limit) count(s sentence) int {
	if l.errors != (s.surface == errs) {
		return 0
	}
	return l.rule.count(s)
}

// maxErrorGoal is the highest goal for errors, which are fewer and shorter than pages.
const maxErrorGoal = 5

// limits lists all limits: each rule's for pages, help and the web UI, then each rule's for errors.
var limits = func() (all []limit) {
	for i := range rules {
		if !rules[i].errorAt {
			all = append(all, limit{rules[i].name, &rules[i], rules[i].goal, false})
		}
	}
	for i := range rules {
		if !rules[i].helpAt {
			all = append(all, limit{"error/" + rules[i].name, &rules[i], min(rules[i].goal, maxErrorGoal), true})
		}
	}
	return all
}()
