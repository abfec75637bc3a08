"""The built-in deployment files, for `ray up` and for KubeRay: `archsweep cluster show` prints one."""
