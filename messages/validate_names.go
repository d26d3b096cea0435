package messages

import "fmt"

// This file has the checks of basic values, which all protocols use.

func (x *Token) valid() error {
	if x.GetEpoch() == 0 {
		return refuse("epoch", "must not be 0: epochs start at 1", "")
	}
	return nil
}

func (x *Incarnation) valid() error {
	return first(
		id("boot_id", x.GetBootId()),
		between("started_ns", x.GetStartedNs(), 0, 1<<62),
	)
}

// valid checks an amount of one node or one task.
func (x *Resources) valid() error {
	return first(
		between("milli_cpu", x.GetMilliCpu(), 0, MaxMilliCPU),
		between("memory_bytes", x.GetMemoryBytes(), 0, MaxMemoryBytes),
		between("milli_gpu", x.GetMilliGpu(), 0, MaxMilliGPU),
	)
}

// something refuses an amount of zero.
func something(field string, x *Resources) error {
	if x.GetMilliCpu() == 0 && x.GetMemoryBytes() == 0 && x.GetMilliGpu() == 0 {
		return refuse(field, "requests no resources", "request cpu, memory or gpu")
	}
	return nil
}

// wholeOrPart refuses an amount that is neither a whole number of devices nor a fraction of one device.
func wholeOrPart(field string, milli int64) error {
	if milli > 1000 && milli%1000 != 0 {
		return refuse(field, fmt.Sprintf("is %d thousandths of a GPU, neither a whole number of GPUs nor a fraction "+
			"of one", milli),
			fmt.Sprintf("request %d or %d whole GPUs", milli/1000, milli/1000+1))
	}
	return nil
}

func (x *Gpu) valid() error {
	return first(
		id("id", x.GetId()),
		text("type", x.GetType(), MaxNameBytes),
		between("memory_bytes", x.GetMemoryBytes(), 0, MaxMemoryBytes),
		text("bus_id", x.GetBusId(), MaxIDBytes),
		between("minor", int64(x.GetMinor()), 0, 1<<20),
		text("fabric_domain", x.GetFabricDomain(), MaxIDBytes),
	)
}

func (x *GpuShare) valid() error {
	return first(
		id("gpu_id", x.GetGpuId()),
		between("milli", x.GetMilli(), 1, 1000),
	)
}

func (x *Label) valid() error {
	ok := x.GetKey() != "" && len(x.GetKey()) <= maxKeyBytes && only(x.GetKey(), func(c byte) bool {
		return digit(c) || lower(c) || upper(c) || c == '-' || c == '_' || c == '.' || c == '/'
	})
	if !ok {
		return refuse("key", fmt.Sprintf("%s is not a valid label key", short(x.GetKey())),
			"use 1 to 128 letters, digits and any of -_./")
	}
	return text("value", x.GetValue(), MaxValueBytes)
}

// labels checks a list of labels with unique keys.
func labels(field string, list []*Label) error {
	return first(
		parts(field, list, 0, MaxLabels),
		unique(field, list, (*Label).GetKey),
	)
}

func (x *EnvVar) valid() error {
	n := x.GetName()
	ok := n != "" && !digit(n[0]) && only(n, func(c byte) bool { return digit(c) || lower(c) || upper(c) || c == '_' })
	if !ok {
		return refuse("name", fmt.Sprintf("%s is not a valid variable name", short(n)),
			"use letters, digits and '_', not starting with a digit")
	}
	return passed("value", x.GetValue())
}

func (x *Mount) valid() error {
	return first(
		absolute("source", x.GetSource()),
		absolute("target", x.GetTarget()),
	)
}

func (x *Principal) valid() error {
	err := first(
		given("name", x.GetName(), MaxValueBytes),
		between("groups", int64(len(x.GetGroups())), 0, MaxLabels),
	)
	for i, g := range x.GetGroups() {
		err = first(err, in("groups", at(i, given("", g, MaxValueBytes))))
	}
	return err
}

// caller checks the caller of a request. Every request has a caller, even if the cluster has no identities.
func caller(x *Principal) error { return part("principal", x) }
