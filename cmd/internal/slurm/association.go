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

// The default columns of sacctmgr and sshare.
const (
	ManagerUsual = "Account,User,Cluster,QOS"
	ShareUsual   = "Account%-20,User%10,RawShares%10,NormShares%11,RawUsage%11,EffectvUsage%13,FairShare%10"
)
