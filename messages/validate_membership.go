package messages

// This file has the checks of the messages by which a node joins and stays.

// Validate refuses a message without an epoch or a cluster.
func (x *Lead) Validate() error {
	return first(
		led("epoch", x.GetEpoch()),
		id("cluster_id", x.GetClusterId()),
	)
}

func (x *Announcement) valid() error {
	if int64(len(x.GetGpus()))*1000 != x.GetTotal().GetMilliGpu() {
		return refuse("total.milli_gpu", "must be the sum of the devices", "")
	}
	if x.GetPortLast() < x.GetPortFirst() {
		return refuse("port_last", "must not be less than port_first", "")
	}
	return first(
		part("total", x.GetTotal()),
		parts("gpus", x.GetGpus(), 0, MaxMilliGPU/1000),
		unique("gpus", x.GetGpus(), (*Gpu).GetId),
		places(x.GetPlace()),
		labels("labels", x.GetLabels()),
		given("address", x.GetAddress(), MaxValueBytes),
		port("port_first", x.GetPortFirst(), 1),
		port("port_last", x.GetPortLast(), 1),
		text("agent_version", x.GetAgentVersion(), MaxIDBytes),
		between("vocabulary", int64(x.GetVocabulary()), 0, 1<<31-1),
		between("networks", int64(len(x.GetNetworks())), 0, MaxLabels),
	)
}

// places checks the topology of a node: each level once, with a name.
func places(list []*Label) error {
	for i, l := range list {
		if l.GetValue() == "" {
			return in("place", at(i, refuse("value", "is missing", "")))
		}
	}
	return first(
		parts("place", list, 0, maxPlaceLevels),
		unique("place", list, (*Label).GetKey),
	)
}

// Validate refuses a message without an announcement.
func (x *Hello) Validate() error {
	return first(
		part("origin", x.GetOrigin()),
		led("epoch", x.GetEpoch()),
		part("announcement", x.GetAnnouncement()),
		maybe("ledger", x.GetLedger()),
		idOrNone("cluster_id", x.GetClusterId()),
		text("doubt", x.GetDoubt(), maxTextBytes),
		maybe("users", x.GetUsers()),
	)
}

// valid limits the number of accounts, and refuses invalid names.
func (x *NodeUsers) valid() error {
	err := first(
		between("own", int64(len(x.GetOwn())), 0, MaxAccounts),
		between("mapped", int64(len(x.GetMapped())), 0, MaxAccounts),
	)
	for i, name := range x.GetOwn() {
		err = first(err, in("own", at(i, given("", name, MaxIDBytes))))
	}
	for i, m := range x.GetMapped() {
		err = first(err, in("mapped", at(i, first(
			given("owner", m.GetOwner(), MaxValueBytes), given("account", m.GetAccount(), MaxIDBytes)))))
	}
	return err
}

// Validate refuses a message without an epoch or an incarnation.
func (x *Welcome) Validate() error {
	return first(
		led("epoch", x.GetEpoch()),
		part("incarnation", x.GetIncarnation()),
		text("text", x.GetText(), maxTextBytes),
	)
}

// Validate refuses a rejection without a reason. The incarnation is optional, because a Hello without one is rejected
// too.
func (x *Rejected) Validate() error {
	return first(
		led("epoch", x.GetEpoch()),
		said("reason", x.GetReason()),
		text("text", x.GetText(), maxTextBytes),
		maybe("incarnation", x.GetIncarnation()),
	)
}

// Validate refuses a message without an origin.
func (x *Heartbeat) Validate() error {
	return first(
		part("origin", x.GetOrigin()),
		led("epoch", x.GetEpoch()),
		maybe("ledger", x.GetLedger()),
		between("load_percent", int64(x.GetLoadPercent()), 0, 1<<20),
		between("running_tasks", int64(x.GetRunningTasks()), 0, 1<<20),
		parts("progress", x.GetProgress(), 0, MaxProgresses),
	)
}

// Validate refuses a message without an epoch or an incarnation.
func (x *HeartbeatAck) Validate() error {
	return first(
		led("epoch", x.GetEpoch()),
		part("incarnation", x.GetIncarnation()),
	)
}

// Validate refuses a report without a ledger.
func (x *Report) Validate() error {
	return first(
		part("origin", x.GetOrigin()),
		led("epoch", x.GetEpoch()),
		part("ledger", x.GetLedger()),
	)
}
