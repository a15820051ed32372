package main

import "context"

func httpAccept(context.Context, options) error { return nil }
func pipeline(context.Context, options) error   { return nil }
func identities(context.Context, options) error { return nil }
