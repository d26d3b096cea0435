// The rule on mailboxes. This file defines which mailbox an actor may have.
package test

import (
	"fmt"
	"go/ast"
	"slices"
)

// propsMakers lists the functions of Proto.Actor that create Props.
var propsMakers = []string{"PropsFromProducer", "PropsFromFunc"}

// mailboxRule: every Props names its mailbox, and it is not one of Proto.Actor's own. Proto.Actor's default mailbox
// panics if a message arrives between the registration of an actor and its start. Tests are not exempt: a test on the
// default mailbox fails by chance, and does not test production behaviour.
func mailboxRule(s source) []string {
	if s.syntax == nil || s.layer() == "tools" {
		return nil
	}
	named := map[*ast.SelectorExpr]bool{}
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			if maker, is := node.Fun.(*ast.SelectorExpr); is && slices.ContainsFunc(node.Args, s.namesMailbox) {
				named[maker] = true
			}
		case *ast.SelectorExpr:
			makes := slices.Contains(propsMakers, node.Sel.Name) && !named[node]
			if s.imported(node) == protoActor+"/actor" && makes {
				findings = append(findings, fmt.Sprintf("%s: %s without actor.WithMailbox(link.Mailbox): the default mailbox "+
					"panics when a message arrives before the actor has started", s.at(node.Pos()), node.Sel.Name))
			}
		case *ast.CompositeLit:
			if made, is := node.Type.(*ast.SelectorExpr); is && made.Sel.Name == "Props" &&
				s.imported(made) == protoActor+"/actor" {
				findings = append(findings, fmt.Sprintf("%s: make Props by actor.PropsFromProducer, with a mailbox",
					s.at(node.Pos())))
			}
		}
		return true
	})
	return findings
}

// namesMailbox reports whether an argument is actor.WithMailbox with a mailbox that is not Proto.Actor's.
func (s source) namesMailbox(argument ast.Expr) bool {
	call, is := argument.(*ast.CallExpr)
	if !is || len(call.Args) != 1 {
		return false
	}
	option, is := call.Fun.(*ast.SelectorExpr)
	if !is || option.Sel.Name != "WithMailbox" {
		return false
	}
	stock := false
	ast.Inspect(call.Args[0], func(node ast.Node) bool {
		if made, is := node.(*ast.SelectorExpr); is && s.imported(made) == protoActor+"/actor" && made.Sel.Name != "Mailbox" {
			stock = true
		}
		return !stock
	})
	return !stock
}
