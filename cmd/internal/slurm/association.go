package slurm

import "strings"

// Association is a user's membership in an account. An account is a label of jobs. A user therefore belongs to the
// accounts of their jobs and to the queues in which they may submit.
type Association struct{ User, Account string }

// AssociationFields returns the fields of sacctmgr and sshare.
func AssociationFields() (all []Field[*Association]) {
	at := func(name string, of func(*Association) string) {
		all = append(all, Field[*Association]{Names: []string{name}, Head: name, Of: of})
	}
	account := func(a *Association) string { return a.Account }
	at("Account", account)
	at("User", func(a *Association) string { return a.User })
	at("DefaultAccount", account)
	at("Cluster", func(*Association) string { return ClusterName })
	at("QOS", func(*Association) string { return "normal" })
	at("DefaultQOS", func(*Association) string { return "normal" })
	at("AdminLevel", func(*Association) string { return "None" })
	for name := range strings.FieldsSeq("Partition Share Fairshare RawShares NormShares RawUsage NormUsage EffectvUsage " +
		"LevelFS TRESRunMins GrpTRESMins ParentName Priority MaxJobs MaxSubmitJobs MaxTRES MaxWall GrpJobs GrpTRES " +
		"GrpSubmit GrpWall Descr Org Coordinators") {
		all = append(all, Field[*Association]{Names: []string{name}, Head: name})
	}
	return all
}

// Fact is a row of a list of sacctmgr that no setting changes: the only QOS, or the only cluster.
type Fact map[string]string

// The facts about this cluster.
var (
	OnlyQOS     = Fact{"Name": "normal", "Priority": "0", "GraceTime": "00:00:00", "PreemptMode": "cluster"}
	OnlyCluster = Fact{"Cluster": ClusterName, "RPC": "0", "QOS": "normal"}
)

// FactFields returns the fields of facts.
func FactFields(names string) (all []Field[Fact]) {
	for name := range strings.FieldsSeq(names) {
		all = append(all, Field[Fact]{Names: []string{name}, Head: name, Of: func(f Fact) string { return f[name] }})
	}
	return all
}

// The names of the fields of facts, and the default columns.
const (
	QOSNames = "Name Priority GraceTime Preempt PreemptExemptTime PreemptMode Flags UsageThres UsageFactor GrpTRES " +
		"GrpTRESMins GrpTRESRunMins GrpJobs GrpSubmit GrpWall MaxTRES MaxTRESPerNode MaxTRESMins MaxWall MaxTRESPU " +
		"MaxJobsPU MaxSubmitPU MaxTRESPA MaxJobsPA MaxSubmitPA MinTRES Description Id"
	QOSUsual     = "Name,Priority,GraceTime,Preempt,PreemptMode,Flags,MaxWall"
	ClusterNames = "Cluster ControlHost ControlPort RPC Share QOS Flags NodeCount NodeNames TRES DefQOS"
	ClusterUsual = "Cluster,ControlHost%15,ControlPort%12,RPC%5,Share%9,QOS%20"
)

// The default columns of sacctmgr and sshare.
const (
	ManagerUsual = "Account,User,Cluster,QOS"
	ShareUsual   = "Account%-20,User%10,RawShares%10,NormShares%11,RawUsage%11,EffectvUsage%13,FairShare%10"
)
