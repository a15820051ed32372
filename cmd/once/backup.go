package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/system/embedded/backup"
)

func (a *app) backup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy a data folder and its output files, also while once runs",
		Long: `Backup copies the data folder of this machine, and the files of its file destinations, into a folder that does not exist yet. If once runs on
the data folder, it makes the copy itself and goes on with its work; otherwise the command opens the folder. All parts of the copy fit each other:
it is the system at one moment, and has everything that was acknowledged before the command began.

Tables and published objects are hard links where possible: a backup on the same disk is quick and small at first, and no protection against the loss of the
disk. Copy it elsewhere, and check the copy with once verify. Until a backup is complete, the name of its folder ends in .unfinished.

With --url, the server on another machine makes the copy: DIR is an absolute path there.

once restore puts it back.`,
		Example: `  once backup /backup/monday
  once backup /var/lib/once/monday --url https://once.example.com:9444
  once backup "/backup/$(date +%F)" --data /var/lib/once --json`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	path, data, asJSON := configFlag(cmd), dataFlag(cmd), jsonFlag(cmd)
	remote := remoteFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := remote.check(cmd, "data", "config"); err != nil {
			return usageError(cmd, err)
		}
		return a.lookHere(cmd, remote, a.repairFolder, *data, *path, func(ctx context.Context, s admin.Admin) error {
			dir, on, err := backupFolder(s, args[0])
			if err != nil {
				return usageError(cmd, err)
			}
			if u, ok := s.(unconfigured); ok {
				s = u.folder
			}
			b, ok := s.(admin.Backuper)
			if !ok {
				return errors.New("only a data folder can be backed up")
			}
			info, err := b.Backup(ctx, dir)
			if err != nil {
				return err
			}
			if info.Unknown > 0 {
				_, _ = fmt.Fprintf(a.err, "warning: %s of destinations that are not configured: not in the backup\n", plural(info.Unknown, "output file"))
			}
			if info.Missing > 0 {
				_, _ = fmt.Fprintf(a.err, "warning: %s moved away, and not begun again: not in the backup\n", plural(info.Missing, "output file"))
			}
			if *asJSON {
				return printJSON(a.out, info)
			}
			_, err = fmt.Fprintf(a.out, "copied the data folder as of %s, with %s and %s, to %s%s\n", info.At.Local().Format(time.DateTime), plural(info.Files, "output file"), plural(info.Objects, "object"), safe(info.Dir), on)
			return err
		})
	}
	return cmd
}

// backupFolder returns the path of the folder of a backup, and where it is if it is on another
// machine.
func backupFolder(s admin.Admin, path string) (dir, on string, err error) {
	if c, ok := s.(*admin.Client); ok && c.Remote() != "" {
		if !strings.HasPrefix(path, "/") {
			return "", "", fmt.Errorf("%q must be an absolute path: the folder is on the server", path)
		}
		return path, " on " + c.Remote(), nil
	}
	dir, err = filepath.Abs(path)
	return dir, "", err
}

// restored is the JSON output of restore.
type restored struct {
	// At is the moment of the copy. It is not known with --stamp.
	At time.Time `json:"at,omitzero"`
	// DataDir and Files were written.
	DataDir string   `json:"data_dir"`
	Files   []string `json:"files"`
}

func (a *app) restore() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restore DIR",
		Short: "Put a backup back",
		Long: `Restore copies a backup to an empty data folder, and its output files to where they were. It changes no file that exists: if an output file is
there and is not as it was copied, restore says so and does nothing. Move it away first; the lines that came after the backup are only there.
Output files that were in the data folder are put into the new one. Destinations know their files by absolute path: if there are any, restore to the old path.

The system then knows what it knew at the moment of the backup. The next start stamps the folder with its time, so that new effects get identities that no
receiver knows. The clock must be right.

With --stamp, DIR is a data folder that was put back by other means: the next start stamps it. A start on the files of a backup needs this. It can't be known
that a folder comes from a snapshot of a disk: without --stamp, receivers would drop new effects as duplicates.`,
		Example: `  once restore /backup/monday
  once restore /backup/monday --data /var/lib/once --json
  once restore --stamp /var/lib/once`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	data, asJSON := dataFlag(cmd), jsonFlag(cmd)
	stamp := cmd.Flags().Bool("stamp", false, "stamp the data folder DIR, which was put back by other means")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := restored{DataDir: *data, Files: []string{}}
		var text string
		switch {
		case *stamp && cmd.Flags().Changed("data"):
			return usageError(cmd, errors.New("--stamp and --data exclude each other: DIR is the data folder"))
		case *stamp:
			out.DataDir = args[0]
			err := backup.Stamp(out.DataDir, time.Now())
			if errors.Is(err, pebbledb.ErrLocked) {
				err = &exitError{exitAway, err}
			}
			if err != nil {
				return err
			}
			text = fmt.Sprintf("%s counts as restored", safe(out.DataDir))
		default:
			info, err := backup.Restore(cmd.Context(), args[0], *data, time.Now)
			if err != nil {
				return err
			}
			out.At = info.At
			for _, f := range info.Files {
				out.Files = append(out.Files, f.Path)
			}
			text = fmt.Sprintf("restored %s as of %s, with %s", safe(out.DataDir), out.At.Local().Format(time.DateTime), plural(len(out.Files), "output file"))
		}
		if *asJSON {
			return printJSON(a.out, out)
		}
		_, err := fmt.Fprintf(a.out, "%s; the next start stamps it\n", text)
		return err
	}
	return cmd
}

func (a *app) verify() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read every record of a backup or a data folder, with its checksums",
		Long: `Verify reads every record of a backup, or of a data folder that no process has open, and checks all checksums. In a backup it also checks the output
files, and counts the published objects: their content has no checksum. It changes nothing. It exits with 1 if something is damaged, and names it.`,
		Example: `  once verify /backup/monday
  once verify .once --json`,
		Args: arguments(cobra.ExactArgs(1)),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		bar := a.progress(-1, "reading", "records")
		show := func(n int) { _ = bar.Set(n) } // a closed terminal shows no progress
		v, err := backup.Verify(cmd.Context(), args[0], show)
		_ = bar.Clear()
		if err != nil {
			return err
		}
		if *asJSON {
			err = printJSON(a.out, v)
		} else {
			for _, p := range v.Problems {
				_, _ = fmt.Fprintln(a.err, safe(p))
			}
			_, err = fmt.Fprintf(a.out, "%s, %s, %s: %s\n", plural(v.Records, "record"), plural(v.Files, "output file"), plural(v.Objects, "object"), damageText(v.Damaged))
		}
		if err == nil && v.Damaged > 0 {
			err = &exitError{code: exitFailed}
		}
		return err
	}
	return cmd
}

func damageText(n int) string {
	if n == 0 {
		return "no damage"
	}
	return fmt.Sprintf("%d damaged", n)
}
