package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/deployed"
)

// stackOptions select a deployed system, if any.
type stackOptions struct {
	deployed.Options
	principal string
	redriven  func(admin.RedriveInfo)
}

func stackFlags(cmd *cobra.Command) *stackOptions {
	o := &stackOptions{}
	f := cmd.Flags()
	f.StringVar(&o.Name, "stack", "", "the system deployed as this CloudFormation stack; NAME/ID for one of its pipelines")
	f.StringVar(&o.Profile, "profile", "", "AWS profile; default by the environment")
	f.StringVar(&o.Region, "region", "", "AWS region; default by the environment or the profile")
	return o
}

// principalFlag adds --principal to a command that looks messages up.
func principalFlag(cmd *cobra.Command, o *stackOptions) {
	cmd.Flags().StringVar(&o.principal, "principal", "", "sender of the message, as iam:ARN; '' for a message by SQS; default yourself, then ''; needs --stack")
}

// check refuses flags that need a stack if there is none, and flags that exclude one.
func (o *stackOptions) check(cmd *cobra.Command, others ...string) error {
	f := cmd.Flags()
	if f.Changed("stack") && o.Name == "" {
		return errors.New("--stack must not be empty")
	}
	if o.Name == "" {
		others = []string{"profile", "region", "principal"}
	}
	for _, name := range others {
		switch {
		case !f.Changed(name):
		case o.Name == "":
			return fmt.Errorf("--%s needs --stack", name)
		default:
			return fmt.Errorf("--stack and --%s exclude each other", name)
		}
	}
	if o.Name == "" {
		return nil
	}
	return checkEndpoints()
}

// checkEndpoints refuses invalid addresses in the environment, with which AWS would seem to be
// down.
func checkEndpoints() error {
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "AWS_ENDPOINT_URL") || value == "" {
			continue
		}
		if err := awsconfig.CheckEndpoint(name, value); err != nil {
			return err
		}
	}
	return nil
}

// lookAtStack calls f with a deployed system.
func (a *app) lookAtStack(cmd *cobra.Command, t target, f func(context.Context, admin.Admin) error) error {
	c, err := named(cmd, *t.config)
	if err != nil {
		return err
	}
	found, err := deployed.Open(cmd.Context(), t.stack.Options)
	if err != nil {
		return err
	}
	options := deployed.SystemOptions{Config: c, Log: a.stackLog(), Redriven: t.stack.redriven}
	if cmd.Flags().Changed("principal") {
		options.Principal = &t.stack.principal
	}
	system, err := found.System(options)
	if err != nil {
		return err
	}
	return f(cmd.Context(), system)
}

// named reads the configuration that --config names, and returns nil without that flag: the
// deployed one is read then. A file in the working folder may be that of another system.
func named(cmd *cobra.Command, path string) (*config.Config, error) {
	if !cmd.Flags().Changed("config") {
		return nil, nil //nolint:nilnil // there is no configuration, and that is no error
	}
	c, err := load(cmd, path)
	return c.Config, err
}

// stackLog returns a log for people that explains why something was not done.
func (a *app) stackLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
			if at.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return at
		},
	}))
}

// sender accepts messages: a client of a server, or a queue.
type sender interface {
	Send(ctx context.Context, m client.Message) (client.Receipt, error)
}

// stackSender returns a sender to a deployed system: through its API, or directly to a queue.
func stackSender(ctx context.Context, o *sending, options client.Options) (sender, error) {
	found, err := deployed.Open(ctx, o.stack.Options)
	if err != nil {
		return nil, err
	}
	if o.queue != "" {
		return found.QueueSender(deployed.QueueKind(o.queue), options), nil
	}
	if o.url == "" {
		o.url = found.Outputs.APIURL
	}
	options.HTTP = &http.Client{Transport: found.Signer()}
	c, err := client.New(o.url, options)
	return signed{c}, err
}

// signed adds advice if the API refuses a caller.
type signed struct{ sender }

func (s signed) Send(ctx context.Context, m client.Message) (client.Receipt, error) {
	receipt, err := s.sender.Send(ctx, m)
	return receipt, advised(err)
}

func (s signed) SendBatch(ctx context.Context, messages []client.Message) []client.Result {
	results := together(s.sender)(ctx, messages)
	for i := range results {
		results[i].Err = advised(results[i].Err)
	}
	return results
}

func advised(err error) error {
	var p *client.Problem
	if errors.As(err, &p) && p.Type == "" && (p.Status == http.StatusForbidden || p.Status == http.StatusUnauthorized) {
		err = fmt.Errorf("%w: the API accepts requests signed by a caller with the permission execute-api:Invoke; if it uses another authorization, send to the queue with --queue", err)
	}
	return err
}
