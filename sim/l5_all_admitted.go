package sim

// allAdmitted is L5: once arrivals stop, every feasible gang is admitted. The
// run itself waits for every job to be over (settle in run.go) and says who
// waits for what when they are not. Here stands the other half: a job does not
// end because of the cluster.
type allAdmitted struct{}

func newAllAdmitted() *allAdmitted { return &allAdmitted{} }

func (*allAdmitted) Name() string         { return "L5 all-admitted" }
func (*allAdmitted) Watches() []EventKind { return nil }
func (*allAdmitted) Step(*World, *Event)  {}

// Quiet looks for jobs that nobody ever ran and nobody cancelled.
func (c *allAdmitted) Quiet(w *World) {
	for _, o := range w.client.jobs {
		page := w.books.jobs[o.id]
		if page == nil || len(page.tokens) > 0 || page.record.Cancel != nil {
			continue
		}
		w.violate(c.Name(), "%s ended as %v and never ran: %s", o.id, page.record.State, page.record.Outcome)
	}
}
