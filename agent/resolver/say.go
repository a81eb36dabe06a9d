package resolver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/fleet"
)

func sayNotBound(k route.Key, b fleet.Bind, cause error) string {
	return fmt.Sprintf("nothing can listen on %s for %s (consumer %s): %s", k.Bind, k.Service, k.Consumer, sayBindCause(b, cause))
}

func sayAPINotBound(b fleet.Bind, cause error) string {
	return fmt.Sprintf("nothing can listen on %s for the resolution API: %s", b.Address, sayBindCause(b, cause))
}

func sayAPIEnded(b fleet.Bind, cause error) string {
	return fmt.Sprintf("the resolution API at %s ended: %v; the resolver listens again at the next refresh", b.Address, cause)
}

func sayNotResolved(consumer string, refused *route.Refused) string {
	return fmt.Sprintf("stado resolver service=%s consumer=%s not resolved: %v", refused.Service, consumer, refused)
}

// sayNoTable tells a consumer that nothing can be resolved, without a word about hosts.
const sayNoTable = "this resolver holds no routes; `stado resolver status` on this machine says why"

// sayBindCause names the cause and what to do about it.
func sayBindCause(b fleet.Bind, cause error) string {
	const again = "the resolver tries again at every refresh"
	what := "correct the bind in the registry, or make the address available"
	switch {
	case errors.Is(cause, syscall.EADDRINUSE) && b.Network == "unix":
		what = fmt.Sprintf("a live program listens there; find it with `ss -lxp src %s` and stop it, or give the adapter another path", b.Address)
	case errors.Is(cause, syscall.EADDRINUSE):
		what = fmt.Sprintf("find who holds it with `ss -ltnp 'sport = :%d'` and stop it, or give the adapter another port", b.Addr.Port())
	case errors.Is(cause, syscall.EADDRNOTAVAIL):
		what = "no interface of this host has that address; correct the bind in the registry"
	case errors.Is(cause, syscall.EACCES), errors.Is(cause, syscall.EPERM):
		what = "give this program the right to bind it, or choose a port from 1024 up or another path"
	case errors.Is(cause, syscall.ENOENT):
		what = "make the folder of the socket"
	}
	return fmt.Sprintf("%v; %s; %s", short(cause), what, again)
}

// short is the cause without the address that the sentence names already.
func short(err error) error {
	var errno syscall.Errno
	var op *net.OpError
	var path *os.PathError
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &op):
		return op.Err
	case errors.As(err, &path):
		return path.Err
	}
	return err
}
