package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/system/deployed"
)

// The exit codes are a contract with scripts; once help exit-codes documents them.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitRefused    = 3
	exitAway       = 4
	exitIncomplete = 5
	exitUnknown    = 6
)

const exitText = `once exits with

  0  done
  1  any other error: see the text on standard error
  2  the command line, the configuration or the input is wrong; nothing was done
  3  the server refused (a rejected message, a key that was used for other content, an unknown stream, the key of an operator that it does not know), or
     AWS did (a missing permission): fix the cause first, retrying does not help before
  4  the data folder or the address is in use by another process; stop it, or name another one. With --url: the server was not reachable, or its
     certificate is not trusted. Of send:
     no acknowledgement: the server or AWS was not reachable or not ready, another server answered in its place (a login page, a firewall, the API's
     authorizer), or the server refused after a try without an answer. The message may have been accepted: fix the cause that the text on standard
     error names, and retry under the same keys
  5  only a part is done: some messages of a file were refused or not acknowledged, a sweep or a redrive was incomplete, or the command was
     interrupted. The same command continues where it stopped
  6  there is no such stream, group, message or dead letter, or there is no record of it any more

Retrying under the same keys is always safe: a message that the server has already is acknowledged again and not processed again.`

func exitCodes() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitText}
}

// exitError is an error with an exit code. If err is nil, the message has been printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usageError(cmd *cobra.Command, err error) error {
	return &exitError{exitUsage, fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var exit *exitError
	var invalid *config.InvalidError
	var refused *client.Problem
	var open *client.UnacknowledgedError
	var setup *deployed.SetupError
	var denied *deployed.DeniedError
	var away *smithyhttp.RequestSendError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &invalid), errors.Is(err, awsconfig.ErrEndpoint), errors.Is(err, admin.ErrAddress),
		errors.Is(err, access.ErrExposed), errors.Is(err, config.ErrNoSecret):
		return exitUsage
	case errors.Is(err, admin.ErrKey):
		return exitRefused
	case errors.As(err, &open), errors.Is(err, admin.ErrAway):
		return exitAway
	case errors.As(err, &setup):
		return exitUsage
	case errors.As(err, &refused) && refused.Ambiguous:
		// for any status: a script that treats it as a refusal might give up an accepted message,
		// or send it under another key
		return exitAway
	case errors.As(err, &refused), errors.As(err, &denied):
		return exitRefused
	case errors.Is(err, admin.ErrNotFound):
		return exitUnknown
	case errors.Is(err, context.Canceled), errors.Is(err, deployed.ErrTooMany):
		return exitIncomplete
	case errors.As(err, &away):
		return exitAway
	}
	return exitFailed
}

// notThere converts the error for a missing configuration file to a usage error.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &exitError{exitUsage, err}
	}
	return err
}
