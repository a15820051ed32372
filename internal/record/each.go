package record

import "errors"

// An EachError is the error of a call for several items of which at least one failed. It has the
// error of each item, nil if the item succeeded.
type EachError []error

func (e EachError) Error() string { return errors.Join(e...).Error() }

// Unwrap implements the interface of package errors.
func (e EachError) Unwrap() []error {
	var errs []error
	for _, err := range e {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Each returns the error of a call: nil if all errors are nil, otherwise an [EachError].
func Each(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return EachError(errs)
		}
	}
	return nil
}

// ErrorsOf returns the error of each of n items from the error of a call, which may wrap an
// [EachError]. Otherwise it is the error of all of them.
func ErrorsOf(err error, n int) []error {
	if each, ok := errors.AsType[EachError](err); ok && len(each) == n {
		return each
	}
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
