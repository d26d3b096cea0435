package slurmrest

import "strings"

// This file lists the fields of a job description, with the option of sbatch that each of them is, or with the reason
// why a field has no effect or is refused. A job of the REST API therefore passes the same checks as a job of sbatch.

// valueKind is the form of a field's value.
type valueKind int

const (
	text    valueKind = iota
	words             // a list of texts, or a text with commas
	integer           // a number
	count             // {set, infinite, number}, or a number
	boolean
	other // any value
)

// field is one field of a job description. One of option, same, warn and refuse is set, or combined is.
type field struct {
	name     string
	kind     valueKind
	option   string // the option of sbatch with the same value
	unit     string // text after the number
	combined bool   // job.go reads the field together with others
	same     string // the only value that has an effect here; the value is the default
	warn     bool   // the field has no effect
	refuse   string // why the field is not supported
}

// fields lists the fields of all served versions.
var fields = append([]field{
	{name: "account", option: "account"}, {name: "array", option: "array"}, {name: "comment", option: "comment"},
	{name: "constraints", option: "constraint"}, {name: "dependency", option: "dependency"},
	{name: "name", option: "job-name"}, {name: "partition", option: "partition"}, {name: "qos", option: "qos"},
	{name: "standard_error", option: "error"}, {name: "standard_input", option: "input"},
	{name: "standard_output", option: "output"}, {name: "wckey", option: "wckey"},
	{name: "excluded_nodes", kind: words, option: "exclude"}, {name: "required_nodes", kind: words, option: "nodelist"},
	{name: "open_mode", kind: words, option: "open-mode"}, {name: "nice", kind: integer, option: "nice"},
	{name: "tasks", kind: integer, option: "ntasks"}, {name: "tasks_per_node", kind: integer, option: "ntasks-per-node"},
	{name: "cpus_per_task", kind: integer, option: "cpus-per-task"},
	{name: "memory_per_cpu", kind: count, option: "mem-per-cpu", unit: "M"},
	{name: "memory_per_node", kind: count, option: "mem", unit: "M"},
	{name: "time_limit", kind: count, option: "time"}, {name: "time_minimum", kind: count, option: "time-min"},

	{name: "script", combined: true}, {name: "argv", kind: words, combined: true},
	{name: "environment", kind: words, combined: true}, {name: "current_working_directory", combined: true},
	{name: "hold", kind: boolean, combined: true}, {name: "priority", kind: count, combined: true},
	{name: "begin_time", kind: count, combined: true}, {name: "deadline", kind: integer, combined: true},
	{name: "requeue", kind: boolean, combined: true}, {name: "nodes", combined: true},
	{name: "minimum_nodes", kind: integer, combined: true}, {name: "maximum_nodes", kind: integer, combined: true},
	{name: "minimum_cpus", kind: integer, combined: true}, {name: "tres_per_node", combined: true},
	{name: "tres_per_job", combined: true}, {name: "tres_per_task", combined: true},
	{name: "cpus_per_tres", combined: true}, {name: "memory_per_tres", combined: true},
	{name: "kill_warning_signal", combined: true}, {name: "kill_warning_delay", kind: count, combined: true},
	{name: "kill_warning_flags", kind: words, combined: true}, {name: "required_switches", kind: count, combined: true},
	{name: "minimum_switches", kind: count, combined: true},
	{name: "wait_for_switch", kind: integer, combined: true}, {name: "shared", kind: words, combined: true},
	{name: "exclusive", kind: words, combined: true}, {name: "user_id", combined: true},

	{name: "kill_on_node_fail", kind: boolean, same: "true"}, {name: "wait_all_nodes", kind: boolean, same: "true"},
	{name: "oversubscribe", kind: boolean, same: "true"}, {name: "flags", kind: words, same: "KILL_INVALID_DEPENDENCY"},
}, append(without(), refused()...)...)

// without returns the fields that have no effect here. Each is accepted with a warning.
func without() (all []field) {
	for _, list := range []struct {
		kind  valueKind
		names string
	}{
		{text, "account_gather_frequency admin_comment allocation_node_list batch_features clusters cluster_constraint " +
			"cpu_binding cpu_frequency extra group_id mail_user mcs_label memory_binding selinux_context distribution " +
			"tres_bind tres_freq x11_magic_cookie x11_target_host"},
		{words, "cpu_binding_flags mail_type memory_binding_type power_flags profile spank_environment x11"},
		{integer, "allocation_node_port delay_boot end_time oom_kill_step reserve_ports site_factor " +
			"minimum_boards_per_node minimum_sockets_per_board sockets_per_node threads_per_core tasks_per_socket " +
			"tasks_per_core tasks_per_board x11_target_port hetjob_group"},
		{count, "distribution_plane_size"}, {boolean, "contiguous"}, {other, "rlimits"},
	} {
		for name := range strings.FieldsSeq(list.names) {
			all = append(all, field{name: name, kind: list.kind, warn: true})
		}
	}
	return all
}

// refused returns the fields that are not supported. A job without them would be another job.
func refused() []field {
	return []field{
		{name: "burst_buffer", refuse: "burst buffers are not supported"},
		{name: "container", refuse: "set `image` in a job file: synapse-cli submit"},
		{name: "container_id", refuse: "set `image` in a job file: synapse-cli submit"},
		{name: "core_specification", kind: integer, refuse: "reserved cores are not supported"},
		{name: "thread_specification", kind: integer, refuse: "reserved threads are not supported"},
		{name: "crontab", kind: other, refuse: "submit the job at each time"},
		{name: "immediate", kind: boolean, refuse: "a job waits until it can start: cancel it, or set deadline"},
		{name: "job_id", kind: integer, refuse: "the scheduler chooses the ID"},
		{name: "licenses", refuse: "licenses are not supported"},
		{name: "maximum_cpus", kind: integer, refuse: "use cpus_per_task"},
		{name: "minimum_cpus_per_node", kind: integer, refuse: "use cpus_per_task"},
		{name: "network", refuse: "use `network` in a job file: synapse-cli submit"},
		{name: "ntasks_per_tres", kind: integer, refuse: "use tres_per_task"},
		{name: "overcommit", kind: boolean, refuse: "each task has the cores that it requests"},
		{name: "prefer", refuse: "use constraints"},
		{name: "reboot", kind: boolean, refuse: "nodes cannot be rebooted"},
		{name: "reservation", refuse: "reservations are not supported"},
		{name: "segment_size", kind: count, refuse: "use required_switches"},
		{name: "temporary_disk_per_node", kind: integer, refuse: "use disk in a job file: synapse-cli submit"},
		{name: "tres_per_socket", refuse: "use tres_per_node"},
	}
}

// fieldOf returns the field with this name.
func fieldOf(name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}
