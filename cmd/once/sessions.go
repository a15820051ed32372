package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin/plain"
	"github.com/effectively-once/once/internal/record"
)

const sessionsLong = `Sessions lists the sessions of a stream's pool, or with --group those of the log of a group: who holds each, and what it has processed.

HOLDER is the consumer that holds the session, and LEASE how long others wait for it after a crash; "expired" if it has not renewed its lease in time, and
- if the session is released. FENCE rises with every open; TAKEOVERS counts the opens that did not wait for a release. CURSOR is the number of the last
entry that was reported as processed. LAG is the number of entries that were dealt to the session and are not processed. TRIES counts the failed tries of its
next entry. DEAD has the numbers of its entries that are dead letters. STATE is

  idle          a consumer holds the session and has processed its entries
  behind        a consumer holds the session and has entries to process
  free          nobody holds the session; its entries are processed
  free, behind  nobody holds the session, and it has entries to process
  stopped at N  nobody holds the session, and its entry N has failed TRIES times: a consumer that starts goes on with it; repair the cause before, or leave the entry out with
                once session from STREAM NAME --skip-to N
  at the end    the stream has ended, and its entries are processed
  retiring      the session is closed, and its unread entries are not back in the pool yet
  retired       the session is closed, and its unread entries are back in the pool
  restored      the system was put back to an older copy during the life of the session: no consumer can go on with it; retire it with
                once session retire STREAM NAME

The end of a stream comes to all its sessions together, when each has processed
what was dealt to it: of a stream that has been ended, sessions with a lag hold up the end. Take them over by a consumer of the same name, or retire them.
The last line has the entries of the pool that are not dealt to a session. --json prints the answer of the HTTP API.

The server is --url, else $ONCE_URL, else ` + defaultURL + `. $ONCE_API_KEY is the key for it. --data opens a folder that no server runs on.`

func (a *app) sessions() *cobra.Command {
	var group string
	cmd := &cobra.Command{
		Use:   "sessions STREAM",
		Short: "List the sessions of a stream: who holds them, and what they have processed",
		Long:  sessionsLong,
		Example: `  once sessions work
  once sessions chat --group lobby
  once sessions work --json | jq '.sessions[] | select(.holder == null)'
  once sessions work --stack Once --region eu-west-1`,
		Args:              arguments(oneStream),
		ValidArgsFunction: completeStreams,
	}
	on, asJSON := placeFlags(cmd), jsonFlag(cmd)
	cmd.Flags().StringVar(&group, "group", "", "sessions of the log of this group")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := record.ValidStream(args[0]); err != nil {
			return usageError(cmd, err)
		}
		return a.call(cmd, on, func(ctx context.Context, c *client.Client) error {
			list, err := c.Sessions(ctx, args[0], group)
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(a.out, list)
			}
			return a.printSessions(&list)
		})
	}
	return cmd
}

func (a *app) printSessions(list *client.SessionList) error {
	if len(list.Sessions) == 0 {
		if _, err := fmt.Fprintln(a.out, "there are no sessions"); err != nil {
			return err
		}
		return a.printPool(list.Pool)
	}
	rows := [][]string{{"SESSION", "HOLDER", "LEASE", "FENCE", "CURSOR", "LAG", "TAKEOVERS", "TRIES", "DEAD", "STATE"}}
	for i := range list.Sessions {
		s := &list.Sessions[i]
		rows = append(rows, []string{
			s.Name, dash(s.Holder), lease(s), fmt.Sprint(s.Fence), fmt.Sprint(s.Cursor), fmt.Sprint(s.Lag()), fmt.Sprint(s.Takeovers), fmt.Sprint(s.Tries), dash(deadOf(s.Dead)), plain.SessionState(s),
		})
	}
	if err := table(a.out, rows); err != nil {
		return err
	}
	return a.printPool(list.Pool)
}

// printPool prints how many entries are not dealt to any session.
func (a *app) printPool(p *client.PoolInfo) error {
	if p == nil {
		return nil
	}
	text := fmt.Sprintf("pool: %d waiting, %d of them returned by retired sessions", p.Waiting, p.Returned)
	if p.Unread > 0 {
		text += fmt.Sprintf("; %d returned after the end, which are dead letters", p.Unread)
	}
	if p.Ended {
		text += "; every session has processed its entries, and reads the end"
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// lease returns how long the lease of a session's holder runs.
func lease(s *client.SessionInfo) string {
	switch left := time.Until(s.LeaseUntil); {
	case s.LeaseUntil.IsZero():
		return "-"
	case left <= 0:
		return "expired"
	default:
		return left.Round(time.Second).String()
	}
}

// shownRanges is how many ranges of dead letters are shown.
const shownRanges = 4

// deadOf returns the numbers of dead letters as text, the last ones of many.
func deadOf(list []client.NumberRange) string {
	var parts []string
	if more := len(list) - shownRanges; more > 0 {
		parts, list = append(parts, "…"), list[more:]
	}
	for _, r := range list {
		text := fmt.Sprint(r.From)
		if r.To > r.From {
			text = fmt.Sprint(r.From, "-", r.To)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// sessionNames returns the names of the sessions for completion, none if no server answers soon.
func (a *app) sessionNames(cmd *cobra.Command, stream string) ([]string, cobra.ShellCompDirective) {
	url, group := a.env("ONCE_URL"), ""
	if f := cmd.Flags().Lookup("url"); f != nil && f.Value.String() != "" {
		url = f.Value.String()
	}
	if url == "" {
		url = defaultURL
	}
	if f := cmd.Flags().Lookup("group"); f != nil {
		group = f.Value.String()
	}
	options := client.Options{NeedServer: true, MaxElapsed: time.Second}
	a.authorize(&options)
	c, err := client.New(url, options)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := c.Sessions(context.WithoutCancel(cmd.Context()), stream, group)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Sessions {
		if !list.Sessions[i].Retired {
			names = append(names, list.Sessions[i].Name)
		}
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSessionFlag completes a flag with the names of the stream's sessions.
func (a *app) completeSessionFlag(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.sessionNames(cmd, args[0])
	}) // fails only for an unknown flag
}

// completeSession completes a stream and the name of one of its sessions.
func (a *app) completeSession(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return completeStreams(cmd, args, typed)
	case 1:
		return a.sessionNames(cmd, args[0])
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// streamAndSession returns an error if the arguments are not a stream and a session.
func streamAndSession(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("name a stream and a session: %s STREAM NAME", cmd.CommandPath())
	}
	return errors.Join(record.ValidStream(args[0]))
}
