package main

import (
	"slices"

	"github.com/spf13/cobra"
)

// This file lists the commands, and chooses those that a run creates. To create all commands takes longer than the rest
// of the start of the program.

// namedCommand is a command of the program and its name.
type namedCommand struct {
	name string
	make func(*app) *cobra.Command
}

// commands returns all commands. A function instead of a variable, because the commands refer to the list.
func commands() []namedCommand {
	return []namedCommand{
		{"submit", (*app).submitCommand},
		{"get", (*app).getCommand},
		{"describe", (*app).describeCommand},
		{"explain", (*app).explainCommand},
		{"logs", (*app).logsCommand},
		{"cancel", (*app).cancelCommand},
		{"wait", (*app).waitCommand},
		{"watch", (*app).watchCommand},
		{"events", (*app).eventsCommand},
		{"top", (*app).topCommand},
		{"hold", (*app).holdCommand},
		{"release", (*app).releaseCommand},
		{"requeue", (*app).requeueCommand},
		{"checkpoint", (*app).checkpointCommand},
		{"run", (*app).runCommand},
		{"exec", (*app).execCommand},
		{"cp", (*app).cpCommand},
		{"port-forward", (*app).portForwardCommand},
		{"priority", (*app).priorityCommand},
		{"update", (*app).updateCommand},
		{"apply", (*app).applyCommand},
		{"suspend", (*app).suspendCommand},
		{"attach", (*app).attachCommand},
		{"drain", (*app).drainCommand},
		{"cordon", (*app).cordonCommand},
		{"uncordon", (*app).uncordonCommand},
		{"remove", (*app).removeCommand},
		{"note", (*app).noteCommand},
		{"history", (*app).historyCommand},
		{"efficiency", (*app).efficiencyCommand},
		{"simulate", (*app).simulateCommand},
		{"up", (*app).upCommand},
		{"init", (*app).initCommand},
		{"certify", (*app).certifyCommand},
		{"token", (*app).tokenCommand},
		{"whoami", (*app).whoamiCommand},
		{"login", (*app).loginCommand},
		{"logout", (*app).logoutCommand},
		{"contexts", (*app).contextsCommand},
		{"context", (*app).contextCommand},
		{"audit", (*app).auditCommand},
		{"deploy", (*app).deployCommand},
		{"web", (*app).webCommand},
		{"debug", (*app).debugCommand},
		{"image", (*app).imageCommand},
		{"slurm", (*app).slurmCommand},
		{"auth", (*app).authCommand},
		{"config", (*app).configCommand},
		{"version", (*app).versionCommand},
		{"docs", (*app).docsCommand},
	}
}

// chosen returns the named command if the first argument is the name of a command. Only an error or a help text of that
// command can then be printed. In all other cases, chosen returns all commands: for the list of help, the suggestions
// for a wrong word, and the completion of a shell.
func chosen(args []string) []namedCommand {
	all := commands()
	if len(args) == 0 || args[0] == "docs" {
		return all
	}
	if i := slices.IndexFunc(all, func(c namedCommand) bool { return c.name == args[0] }); i >= 0 {
		return all[i : i+1]
	}
	return all
}
