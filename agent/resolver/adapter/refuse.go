package adapter

import (
	"fmt"
	"io"
	"net"
	"time"

	"stado.internal/stado/fleet"
)

const (
	// lingerTime and lingerBytes bound what is read, and thrown away, from a client after the last word to it.
	lingerTime  = 2 * time.Second
	lingerBytes = 1 << 20
	// lingerIdle is the same for a client that sends nothing and took all that came: long enough to see that it is not between two writes.
	lingerIdle = 100 * time.Millisecond
	// refusalTime bounds the writing of a refusal; it fits into any socket's buffer, so only a broken peer needs it.
	refusalTime = 2 * time.Second
)

// badGateway is a refusal as an HTTP answer.
func badGateway(sentence string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", len(sentence)+1, sentence)
}

// refuse tells a client why nobody will answer it, before anything is read from it. With protocol http that is an answer; closing with
// the request unread would make the kernel destroy it at the client, so what the client still sends is drained for a bounded while. With
// protocol tcp no byte of ours could be told from the service's: the connection is reset.
func (r *relay) refuse(sentence string) {
	r.relays.copying.stats.refused.Add(1)
	if r.protocol != fleet.ProtocolHTTP {
		r.client.abort()
		return
	}
	defer r.client.Close() //nolint:errcheck // nothing more can be done for it
	_ = r.client.SetDeadline(time.Now().Add(refusalTime))
	if _, err := r.client.Write(badGateway(sentence)); err != nil {
		return
	}
	r.client.closeWrite()
	select {
	case r.relays.lingers <- struct{}{}:
		defer func() { <-r.relays.lingers }()
	default:
		return
	}
	_ = r.client.SetReadDeadline(time.Now().Add(lingerTime))
	_ = drain(r.client) // the client is told already; what it does now changes nothing
}

// drain throws away what a client still sends, up to lingerBytes. nil says that there may be more.
func drain(c net.Conn) error {
	_, err := io.CopyN(io.Discard, c, lingerBytes)
	return err
}
