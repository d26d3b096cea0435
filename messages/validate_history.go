package messages

import "fmt"

// This file has the checks of history requests and replies.

// MaxTimeUnixMs limits the times that a client may set: the end of the year 9999.
const MaxTimeUnixMs = 253_402_300_799_999

// Validate refuses an invalid filter or page.
func (x *History) Validate() error {
	if n := len(x.GetStates()); n > maxFilterValues {
		return refuse("states", fmt.Sprintf("has %d entries, more than %d", n, maxFilterValues), "")
	}
	for i, s := range x.GetStates() {
		if err := said("", s); err != nil {
			return in("states", at(i, err))
		}
		if !s.Terminal() {
			return in("states", at(i, refuse("", fmt.Sprintf("%s is not a final state", s),
				"use ListJobs for unfinished jobs")))
		}
	}
	if u := x.GetUntilUnixMs(); u != 0 && u <= x.GetSinceUnixMs() {
		return refuse("until_unix_ms", "must be later than since_unix_ms", "")
	}
	return first(
		caller(x.GetPrincipal()),
		text("owner", x.GetOwner(), MaxValueBytes),
		nameOrNone("queue", x.GetQueue()),
		nameOrTitle("name", x.GetName()),
		labels("labels", x.GetLabels()),
		between("since_unix_ms", x.GetSinceUnixMs(), 0, MaxTimeUnixMs),
		between("until_unix_ms", x.GetUntilUnixMs(), 0, MaxTimeUnixMs),
		text("after", x.GetAfter(), 2*MaxIDBytes),
		between("limit", int64(x.GetLimit()), 0, MaxPageEntries),
	)
}

// Validate refuses a reply without an outcome, or with an invalid job.
func (x *HistoryReply) Validate() error {
	return first(
		part("outcome", x.GetOutcome()),
		parts("jobs", x.GetJobs(), 0, MaxPageEntries),
		text("next", x.GetNext(), 2*MaxIDBytes),
		texts("damaged", x.GetDamaged()),
	)
}

func texts(field string, all []string) error {
	for i, one := range all {
		if err := text("", one, maxTextBytes); err != nil {
			return in(field, at(i, err))
		}
	}
	return nil
}

func (x *PastJob) valid() error {
	return first(
		id("id", x.GetId()),
		said("state", x.GetState()),
		parts("attempts", x.GetAttempts(), 0, 1<<31-1),
	)
}

func (x *PastAttempt) valid() error {
	return first(
		part("token", x.GetToken()),
		between("members", int64(x.GetMembers()), 1, MaxGangTasks),
		parts("places", x.GetPlaces(), 0, MaxGangTasks),
	)
}
