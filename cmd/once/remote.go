package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
)

// The variables that name a server on another machine and the key of its operators. The key is
// never an argument: every user of a machine can read the arguments of its processes.
const (
	adminURLVariable = "ONCE_ADMIN_URL"
	adminKeyVariable = "ONCE_ADMIN_KEY"
)

// remoteOptions select a server on another machine, if any.
type remoteOptions struct{ url, keyFile, caFile string }

func remoteFlags(cmd *cobra.Command) *remoteOptions {
	o := &remoteOptions{}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "admin API of a server on another machine, as https://HOST:PORT; default $"+adminURLVariable+", else the data folder")
	keyFlags(cmd, o)
	return o
}

// keyFlags adds the flags for the key of an operator and for the certificate of the server.
func keyFlags(cmd *cobra.Command, o *remoteOptions) {
	f := cmd.Flags()
	f.StringVar(&o.keyFile, "admin-key-file", "", "file with the key of operators; default the key in $"+adminKeyVariable)
	_ = cmd.MarkFlagFilename("admin-key-file") // fails only for an unknown flag
	authorityFlag(cmd, &o.caFile)
}

// authorityFlag adds the flag for the authorities of the server's certificate.
func authorityFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "ca-file", "", "file with the certificates of authorities, in PEM, if the server's certificate is not signed by one that this machine knows")
	_ = cmd.MarkFlagFilename("ca-file", "pem", "crt") // fails only for an unknown flag
}

// check refuses flags that have no meaning together. others are the flags for other systems.
func (o *remoteOptions) check(cmd *cobra.Command, others ...string) error {
	f := cmd.Flags()
	if !f.Changed("url") {
		return nil
	}
	if o.url == "" {
		return errors.New("--url must not be empty")
	}
	for _, name := range others {
		if f.Changed(name) {
			return fmt.Errorf("--url and --%s exclude each other", name)
		}
	}
	return nil
}

// remote returns a client of the server on another machine, or nil if none is named.
func (a *app) remote(cmd *cobra.Command, o *remoteOptions) (*admin.Client, error) {
	address := o.url
	if f := cmd.Flags(); address == "" && !f.Changed("data") && !f.Changed("stack") {
		address = a.env(adminURLVariable)
	}
	if address == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	key, err := a.adminKey(o)
	if err != nil {
		return nil, err
	}
	authorities, err := authorities(o.caFile)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return nil, &exitError{exitUsage, fmt.Errorf("the admin API at %s needs the key of an operator: set %s, or name a file that has it with --admin-key-file", address, adminKeyVariable)}
	}
	c, err := admin.DialRemote(address, admin.RemoteOptions{Key: key, Authorities: authorities})
	if err != nil {
		return nil, usageError(cmd, err)
	}
	return c, nil
}

// asOperator lets a command of the HTTP API call a server as an operator, if there is a key. The
// key goes to --url and to $ONCE_ADMIN_URL only.
func (a *app) asOperator(cmd *cobra.Command, o *sending, options *client.Options) error {
	if o.operator == nil || o.stack.Name != "" {
		return nil
	}
	key, err := a.adminKey(o.operator)
	if err != nil {
		return err
	}
	if o.url == "" && key != "" {
		o.url = a.env(adminURLVariable)
	}
	if err := trust(o.operator.caFile, options); err != nil {
		return err
	}
	if o.url == "" || key == "" {
		return nil
	}
	if _, err := admin.CheckRemote(o.url); err != nil {
		return usageError(cmd, err)
	}
	options.Header = http.Header{"Authorization": {"Bearer " + key}}
	return nil
}

// trust makes a client accept the authorities of a file, if one is named.
func trust(file string, options *client.Options) error {
	if file == "" {
		return nil
	}
	authorities, err := authorities(file)
	if err != nil {
		return err
	}
	options.HTTP = &http.Client{Transport: admin.Transport(authorities)}
	return nil
}

// adminKey returns the key of an operator, or nothing if there is none. The file of a server may
// have several keys: the first one is used.
func (a *app) adminKey(o *remoteOptions) (string, error) {
	text := a.env(adminKeyVariable)
	if o.keyFile != "" {
		data, err := os.ReadFile(o.keyFile)
		if err != nil {
			return "", &exitError{exitUsage, fmt.Errorf("read key: %w", err)}
		}
		text = string(data)
	}
	for line := range strings.Lines(text) {
		if key := strings.TrimSpace(line); key != "" && !strings.HasPrefix(key, "#") {
			return key, nil
		}
	}
	if o.keyFile != "" {
		return "", &exitError{exitUsage, fmt.Errorf("read key: %s has no key", o.keyFile)}
	}
	return "", nil
}

// authorities returns the authorities of this machine and those of a file, or nil for the former.
func authorities(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // the default of package tls
	}
	data, err := os.ReadFile(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("read certificates: %w", err)}
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(data) {
		return nil, &exitError{exitUsage, fmt.Errorf("read certificates: %s has no certificate in PEM", path)}
	}
	return pool, nil
}
