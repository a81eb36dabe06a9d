package adapter

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"strconv"

	"stado.internal/stado/fleet"
)

// Listen binds an address; it is the shape of [net.ListenConfig.Listen].
type Listen func(ctx context.Context, network, address string) (net.Listener, error)

// DefaultMode is the permission of a unix socket whose adapter declares none.
const DefaultMode fs.FileMode = 0o600

// ParseMode reads the mode of an adapter; empty is [DefaultMode].
func ParseMode(octal string) (fs.FileMode, error) {
	if octal == "" {
		return DefaultMode, nil
	}
	n, err := strconv.ParseUint(octal, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf("mode %q is not a permission in octal (write 0600 or 0660)", octal)
	}
	return fs.FileMode(n), nil
}

// Bind listens on an address of the registry, and on no other: an IPv6 address, also the one that stands for all, takes no client of
// IPv4. A unix socket appears with its mode from the first instant, and takes the place of the socket of a dead process but never of a
// live one's, nor of anything else. with may be nil.
func Bind(ctx context.Context, b fleet.Bind, mode fs.FileMode, with Listen) (net.Listener, error) {
	if b.Network == "unix" {
		return bindUnix(ctx, b.Address, mode, with)
	}
	if with == nil {
		with = (&net.ListenConfig{KeepAlive: -1}).Listen // clients on other machines get their own
	}
	network := "tcp6"
	if b.Addr.Addr().Is4() {
		network = "tcp4"
	}
	return with(ctx, network, b.Address)
}
