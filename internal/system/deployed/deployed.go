package deployed

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	onceconfig "github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/function/environment"
)

const (
	// maxCode is the largest size of a function's archive, in bytes; Lambda takes 50 MB.
	maxCode = 64 << 20
	// codeTime bounds the download of an archive.
	codeTime = 2 * time.Minute
)

// configurationOf returns the text that a function reads as its configuration: its variable, or the
// file of that name in its archive.
func (s *Stack) configurationOf(ctx context.Context, f function) ([]byte, error) {
	value := f.environment[environment.Config]
	if value == "" {
		return nil, fmt.Errorf("%s is not set", environment.Config)
	}
	if strings.Contains(value, "\n") {
		return []byte(value), nil
	}
	out, err := s.get(ctx, f.name)
	if err != nil {
		return nil, fmt.Errorf("find archive of function %s: %w", f.name, explain(err))
	}
	return s.fileOf(ctx, f.name, out.Code.Location, value)
}

// fileOf returns a file of the archive of a function.
func (s *Stack) fileOf(ctx context.Context, function, location, file string) ([]byte, error) {
	if location == "" {
		return nil, fmt.Errorf("the archive of function %s can't be downloaded", function)
	}
	archive, err := s.download(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("download archive of function %s: %w", function, err)
	}
	text, err := fileIn(archive, file)
	if err != nil {
		return nil, fmt.Errorf("read archive of function %s: %w", function, err)
	}
	return text, nil
}

// Configuration returns the configuration that was deployed, as the process function has it: in its
// variable, or in its archive, which is downloaded. It needs the permission lambda:GetFunction on
// that function; a stack without the output ProcessFunction needs two more to find a function.
func (s *Stack) Configuration(ctx context.Context) (*onceconfig.Config, error) {
	name, err := s.processFunction(ctx)
	if err != nil {
		return nil, err
	}
	out, err := s.get(ctx, name)
	if err != nil {
		return nil, unread(name, explain(err))
	}
	value := out.Configuration.Environment.Variables[environment.Config]
	text := []byte(value)
	switch {
	case value == "":
		return nil, unread(name, fmt.Errorf("%s is not set", environment.Config))
	case !strings.Contains(value, "\n"):
		if text, err = s.fileOf(ctx, name, out.Code.Location, value); err != nil {
			return nil, unread(name, err)
		}
	}
	c, err := onceconfig.Parse("configuration of function "+name, text)
	if err != nil {
		return nil, fmt.Errorf("the deployed configuration is not one of this version of once: %w", err)
	}
	return c, nil
}

// processFunction returns the name of the process function, or of another function that has the
// configuration if the stack does not say which one that is.
func (s *Stack) processFunction(ctx context.Context) (string, error) {
	if s.Outputs.ProcessFunction != "" {
		return s.Outputs.ProcessFunction, nil
	}
	functions, err := s.functions(ctx)
	if err != nil {
		return "", err
	}
	if len(functions) == 0 {
		return "", &SetupError{fmt.Sprintf("no function of stack %s has a configuration", s.Name), "deploy it again, or name the configuration that was deployed with --config", nil}
	}
	return functions[0].name, nil
}

// unread returns the error of a deployed configuration that could not be read.
func unread(function string, err error) error {
	if denied, ok := errors.AsType[*DeniedError](err); ok && denied.Advice == missingPermission {
		denied.Advice = "to read the deployed configuration takes the permission lambda:GetFunction on this function; or name the configuration that was deployed with --config"
		return fmt.Errorf("read configuration of function %s: %w", function, err)
	}
	return fmt.Errorf("read configuration of function %s: %w; the option --config names a file in its place", function, err)
}

// download reads a URL that AWS has signed, so that it needs no credentials.
func (s *Stack) download(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, codeTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.httpClient().Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxCode+1))
	if err == nil && len(data) > maxCode {
		err = fmt.Errorf("more than %d bytes", maxCode)
	}
	return data, err
}

// httpClient returns the SDK's client: if the settings have a bundle of certificates, one that
// trusts them.
func (s *Stack) httpClient() aws.HTTPClient {
	if s.config.HTTPClient != nil {
		return s.config.HTTPClient
	}
	return awshttp.NewBuildableClient()
}

// fileIn returns a file of a zip archive.
func fileIn(archive []byte, name string) ([]byte, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	file, err := z.Open(strings.TrimPrefix(name, "./"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, onceconfig.MaxSize+1))
	if err == nil && len(data) > onceconfig.MaxSize {
		err = fmt.Errorf("%s has more than %d bytes", name, onceconfig.MaxSize)
	}
	return data, err
}
