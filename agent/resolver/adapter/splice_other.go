//go:build !linux

package adapter

import "errors"

// pipe exists only where the kernel can splice.
type pipe struct{}

func newPipe() (*pipe, error)                 { return nil, errors.ErrUnsupported }
func (p *pipe) close()                        {}
func (p *pipe) out(int, int) (int, error)     { return 0, errors.ErrUnsupported }
func (d *direction) spliceIn(int) (_, _ bool) { return false, false }
