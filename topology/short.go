package topology

// This file has the short form of a refusal: one line, for lists of jobs.

import (
	"strconv"
	"strings"
)

// domainColumns is the maximum width of a domain's name in a short reason.
const domainColumns = 18

// Short returns a short reason: the request and the available resources. The caller may omit the additional facts, last
// one first.
func (r *Refusal) Short() (text string, more []string) {
	switch r.Cause {
	case Senseless:
		return r.Text, nil
	case NoSuchLevel:
		return "unknown topology level " + strconv.Quote(r.Level), nil
	case NoMatch:
		switch {
		case r.Refused:
			return r.Account.short(), nil
		case r.Unmet != "":
			return r.Unmet, nil
		}
		return "no node matches", []string{"needs " + r.amount(r.Units)}
	}
	text = r.shortNeed() + ", " + r.shortHas()
	if r.Near.Node != "" && r.Room*r.unit() < r.Free {
		more = append(more, r.Near.words(r.split))
	}
	for _, fact := range []struct {
		holds bool
		words string
	}{
		{r.Named && !r.Idle, "on named nodes"}, {r.rate.whole, "in whole nodes"},
		{r.Avoided, "without nodes where it failed"},
		{r.Closing, "without nodes that drain first"},
		{r.Excluded, "without excluded nodes"}, {r.Account.Name != "", "as user " + r.Account.Name},
	} {
		if fact.holds {
			more = append(more, fact.words)
		}
	}
	return text, more
}

// Words returns the short reason with all additional facts.
func (r *Refusal) Words() string {
	text, more := r.Short()
	return strings.Join(append([]string{text}, more...), ", ")
}

// shortNeed returns the request and its level.
func (r *Refusal) shortNeed() string {
	if r.Patient && !r.Idle {
		return "prefers 1 " + r.Level
	}
	text := "needs " + r.amount(r.Units)
	if r.Level != "" {
		text += " in 1 " + r.Level
	}
	return text
}

// shortHas returns the available resources in the best domain.
func (r *Refusal) shortHas() string {
	name := tail(r.Domain, domainColumns)
	usable, rest := r.Room*r.unit(), ""
	if usable < r.Free {
		rest = ", " + r.money(usable) + " usable"
	}
	switch {
	case r.Idle && r.Level != "":
		return "largest " + name + " has " + r.money(r.Total) + rest
	case r.Idle:
		who := "cluster has "
		if r.Named {
			who = "named nodes have "
		}
		return who + r.money(r.Total) + rest
	case r.Level != "" && rest == "":
		return "best " + name + " has " + r.money(r.Free) + " of " + r.money(r.Total)
	case r.Level != "":
		return "best " + name + " has " + r.money(usable) + " usable of " + r.money(r.Total)
	}
	return r.money(r.Free) + " of " + r.money(r.Total) + " free" + rest
}

// Cut returns the beginning of a text that is longer than the given columns, and marks the cut.
func Cut(text string, columns int) string {
	if letters := []rune(text); len(letters) > columns {
		return strings.TrimRight(string(letters[:columns-1]), " ,;:") + "…"
	}
	return text
}

// tail returns the end of a long name, and marks the cut.
func tail(name string, columns int) string {
	letters := []rune(name)
	if len(letters) <= columns {
		return name
	}
	return "…" + string(letters[len(letters)-columns+1:])
}

// short returns a short text of a refusal because no node accepts the account.
func (a Account) short() string {
	if a.Name == a.Owner {
		return "no node runs jobs as " + a.Name
	}
	return "no node runs jobs of " + a.Owner + " as " + a.Name
}
