// Command sends sends 1 KB to a server over TLS 1.3, with its own certificate, and waits for the answer. Its cost is
// the minimum cost of any client in Go. Usage: sends ADDRESS FILE. FILE has the key and the certificate of both ends.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

func main() {
	if err := send(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sends:", err)
		os.Exit(1)
	}
}

func send(address, file string) error {
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	conn, err := tls.Dial("tcp", address, &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13,
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(make([]byte, 1024)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}
