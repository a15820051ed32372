package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
)

func (a *app) end() *cobra.Command {
	var yes bool
	var key string
	cmd := &cobra.Command{
		Use:   "end STREAM",
		Short: "End a stream: it takes no further messages, and its sessions come to their end",
		Long: `End closes a stream for good: it takes no further messages. What it has accepted is still processed. When every session has processed what was dealt to
it, each reads the end, and its once consume ends with exit code 0. once sessions shows which session holds up the end.

End asks first; --yes does not ask, and is needed without a terminal. To repeat it is harmless.

The server is --url, else $ONCE_URL, else ` + defaultURL + `. $ONCE_API_KEY is the key for it. --data opens a folder that no server runs on; then the end comes when a server runs again.`,
		Example: `  once end work
  once end work --yes --json
  once end work --stack Once --region eu-west-1`,
		Args:              arguments(oneStream),
		ValidArgsFunction: completeStreams,
	}
	on, asJSON := placeFlags(cmd), jsonFlag(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&key, "key", "", "identity of this request; default a new one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		stream := args[0]
		if err := record.ValidStream(stream); err != nil {
			return usageError(cmd, err)
		}
		if !yes && !a.typed {
			return usageError(cmd, errors.New("no terminal to confirm on: --yes ends the stream without asking"))
		}
		if key == "" {
			key = uuid.NewString()
		}
		return a.call(cmd, on, func(ctx context.Context, c *client.Client) error {
			if !yes {
				if ok, err := a.ask("end stream "+stream+" for ever? It takes no further messages.", "the stream was not ended"); !ok || err != nil {
					return err
				}
			}
			if err := c.End(ctx, stream, key); err != nil {
				return err
			}
			if *asJSON {
				return printJSON(a.out, map[string]any{"stream": stream, "ended": true})
			}
			_, err := fmt.Fprintf(a.out, "stream %s takes no further messages; its sessions end when all of them have processed their entries: once sessions %s\n", stream, stream)
			return err
		})
	}
	return cmd
}
