/* Prints the address at which it ran, read from the node's own interface, and the sum of all ranks' numbers. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
	int rank, size, sum, mine;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	mine = rank + 1;
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	struct ifaddrs *all, *at;
	getifaddrs(&all);
	for (at = all; at; at = at->ifa_next)
		if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET && !strcmp(at->ifa_name, "cable"))
			printf("rank %d of %d at %s: %d\n", rank, size,
			       inet_ntoa(((struct sockaddr_in *)at->ifa_addr)->sin_addr), sum);
	MPI_Finalize();
	return 0;
}
