package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/system/deployed"
)

// checkedStack is the JSON output of check for a stack.
type checkedStack struct {
	Stack  string `json:"stack"`
	Region string `json:"region"`
	// Healthy is true if every check succeeded.
	Healthy  bool               `json:"healthy"`
	Findings []deployed.Finding `json:"findings"`
}

// checkStack checks a deployed system.
func (a *app) checkStack(cmd *cobra.Command, o *stackOptions, asJSON bool) error {
	found, err := deployed.Open(cmd.Context(), o.Options)
	if err != nil {
		return err
	}
	findings, err := found.Check(cmd.Context())
	if err != nil {
		return err
	}
	verdict := verdictOfFindings(findings)
	if asJSON {
		return errors.Join(printJSON(a.out, checkedStack{found.Name, found.Region, verdict == nil, findings}), verdict)
	}
	rows := [][]string{{"RESOURCE", "CHECK", "VERDICT", "DETAIL"}}
	for _, f := range findings {
		rows = append(rows, []string{f.Resource, f.Check, string(f.Verdict), f.Detail})
	}
	return errors.Join(table(a.out, rows), verdict)
}

// verdictOfFindings returns the exit code: failed if a check failed, incomplete if a check could
// not be made.
func verdictOfFindings(findings []deployed.Finding) error {
	wrong, unknown := 0, 0
	for _, f := range findings {
		switch f.Verdict {
		case deployed.Wrong:
			wrong++
		case deployed.Unknown:
			unknown++
		case deployed.OK:
		}
	}
	switch {
	case wrong > 0:
		return &exitError{exitFailed, fmt.Errorf("%s of %s wrong", plural(wrong, "check"), fmt.Sprint(len(findings)))}
	case unknown > 0:
		return &exitError{exitIncomplete, fmt.Errorf("%s could not be made", plural(unknown, "check"))}
	}
	return nil
}
